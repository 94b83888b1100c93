"""The encoder inside ``pocket``: a small trained network, its inputs, its outputs and a cache of them."""
