"""What a trained model's attention does, as numbers, figures and pages.

``observing.py`` runs a model over sentences; the other files make something of what it saw.
``figures/`` draws, ``page/`` has the interactive page.
"""
