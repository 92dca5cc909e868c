"""What Moses' tokenizer.perl prints for sentences that trigger its rules.

mosesdecoder, commit 34452895f; perl 5.36: perl tokenizer.perl -l LANG -threads 1 -q.  What it
printed in 2018 is that of the same script without its rule for the last word of a line.
"""

#: By language: a sentence, and what the script prints.
PRINTED = {
    "de": [
        ("Wir treffen Smith & Co.", "Wir treffen Smith &amp; Co ."),
        ("Das gilt für Äpfel, Birnen usw.", "Das gilt für Äpfel , Birnen usw ."),
        ("Er kam um 8 Uhr a.m.", "Er kam um 8 Uhr a.m ."),
        (
            "Nr. 5 und 3. Mai, d.h. Dr. Meier usw. und so.",
            "Nr. 5 und 3. Mai , d.h. Dr. Meier usw. und so .",
        ),
        ("Das kostet 3,50 Euro, 1.000,- oder 5,", "Das kostet 3,50 Euro , 1.000 , - oder 5 ,"),
        ("„Wirklich?“ – 'Ja...' sagte sie..", "„ Wirklich ? “ – &apos; Ja ... &apos; sagte sie .."),
        (
            "Sie schreibt 洪武帝 und 서울 हिन्दी [sic] | <A&B>.",
            "Sie schreibt 洪武帝 und 서울 हिन ् दी &#91; sic &#93; &#124; &lt; A &amp; B &gt; .",
        ),
        ("Wort wort. Wort Mr. X. Y.Z. ... z.B. a.", "Wort wort . Wort Mr. X. Y.Z. ... z.B. a ."),
    ],
    "en": [
        ("We met Smith & Co.", "We met Smith &amp; Co ."),
        ("It ended at 8 p.m.", "It ended at 8 p.m ."),
        (
            'No. 5 is Mr. Smith\'s, no. I said: "No. Art. 5".',
            "No. 5 is Mr. Smith &apos;s , no . I said : &quot; No . Art. 5 &quot; .",
        ),
        (
            "The dogs' 1990's 'quote' isn't 'n' so.",
            "The dogs &apos; 1990 &apos;s &apos; quote &apos; isn &apos;t &apos; n &apos; so .",
        ),
        ("He said, 'I know.'", "He said , &apos; I know . &apos; "),
        ("Wait... what?! A,B,C 5,300,x 7,", "Wait ... what ? ! A , B , C 5,300 , x 7 ,"),
        (
            "The emperor 洪武帝 (こうぶ), 서울 & x² is ½.",
            "The emperor 洪武帝 ( こうぶ ) , 서울 &amp; x ² is ½ .",
        ),
        (
            "See e.g. www.example.org. it was etc. But a-b well-known Dr.",
            "See e.g. www.example.org. it was etc . But a-b well-known Dr .",
        ),
        ("NUL\x01 and \x9f and\x85line \xa0 x.", "NUL and \x9f and line x ."),
    ],
    # Where the script does not take the dot for the character that it is.
    "ca": [("El col·legi i A·B, d'or.", "El col·legi i A·B , d&apos; or .")],
}
#: What it prints without that rule, where this differs.
OF_2018 = {
    "de": {
        "Wir treffen Smith &amp; Co.",
        "Das gilt für Äpfel , Birnen usw.",
        "Er kam um 8 Uhr a.m.",
        "Wort wort . Wort Mr. X. Y.Z. ... z.B. a.",
    },
    "en": {"It ended at 8 p.m.", "See e.g. www.example.org. it was etc . But a-b well-known Dr."},
}
