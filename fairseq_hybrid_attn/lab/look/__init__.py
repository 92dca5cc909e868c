"""Look into trained models: attention maps, gates, heads; the style of all figures."""
