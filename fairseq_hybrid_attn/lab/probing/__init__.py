"""Probing: what a classifier can tell of a sentence from the states of a frozen encoder.

tasks.py         the ten tasks of SentEval (Conneau et al. 2018), and their files
treatment.py     the sentences of such files, treated as the model's training text was
features.py      a vector for each sentence: the mean of a layer over its tokens
classifier.py    SentEval's classifier, its training and its tuning
probe.py         from task files to accuracies
results.py       these results as tables
figure.py        and as a figure
generate.py      small files of three of the tasks from any text
command.py       the command probe
probing_data.py  the command probing-data
"""
