"""The recipe of the encoder inside ``pocket``: examples, network, training, export. See README.md."""
