"""The laboratory: corpora, experiments, scoring and analyses around the plugin.

The plugin (``patterns``, ``attention``, ``models``, ``criterions``, ``tasks``) imports nothing from
here.  Rooms stand on floors: a room imports only from rooms below it.
"""
