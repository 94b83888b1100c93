"""Ask your own documents: a folder of text, Markdown, HTML and other files (PDF and Word with `polyhop[docs]`).

Writes three notes first. Each question needs two of them; a citation names the heading and the file. The notes do not
answer the last question: the model's confidence is low, its answer is withheld, and the nearest notes are named.

    python examples/own_corpus.py

prints

    In which village was the designer of the third lighthouse of Eddystone born?
    Austhorpe [2]

    - [1] Lighthouses › Eddystone (lighthouses.md)
    - [2] John Smeaton (people/smeaton.md)

    In which town was the inventor of the lens of Cordouan born?
    Broglie [2]

    - [1] Lighthouses › Cordouan (lighthouses.md)
    - [2] Augustin Fresnel (people/fresnel.md)

    How tall was the lighthouse of Alexandria?
    The documents do not say.

    - nearest: Lighthouses › Eddystone (lighthouses.md)
    - nearest: Lighthouses › Cordouan (lighthouses.md)
    - nearest: Augustin Fresnel (people/fresnel.md)
    - and 1 more
"""

import tempfile
from pathlib import Path

import polyhop
from polyhop.answer import with_references

NOTES = {
    "lighthouses.md": """\
# Lighthouses

## Eddystone

The rocks lie far out at sea, south of Plymouth. Their third lighthouse, first lit in 1759, was designed by John
Smeaton, who gave it the shape of an oak: broad at the foot, slender above.

## Cordouan

The tower of Cordouan guards the mouth of the Gironde. In 1823 it was the first lighthouse to be given the stepped lens
of Augustin Fresnel.
""",
    "people/smeaton.md": """\
# John Smeaton

John Smeaton was born in 1724 in Austhorpe, a village near Leeds. He was the first to call himself a civil engineer, and
found out which kinds of lime set under water.
""",
    "people/fresnel.md": """\
# Augustin Fresnel

Augustin Fresnel was born in 1788 in Broglie, a small town in Normandy. He built roads for a living, and worked out in
his spare time how light bends around edges.
""",
}

QUESTIONS = (
    "In which village was the designer of the third lighthouse of Eddystone born?",
    "In which town was the inventor of the lens of Cordouan born?",
    "How tall was the lighthouse of Alexandria?",
)

with tempfile.TemporaryDirectory() as folder:
    for name, text in NOTES.items():
        path = Path(folder, name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")

    with polyhop.Pipeline(folder, method="hops", lm="pocket", k=2, abstain_below=0.2) as qa:
        for question in QUESTIONS:
            print(question)
            print(with_references(qa.ask(question)), end="\n\n")
