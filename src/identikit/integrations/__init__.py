"""Adapters to other people's tools, at the edge: nothing in identikit imports them."""
