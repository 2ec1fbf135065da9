"""Kinds of units: their names, their numbers in lowgear.h, and their letters in schedules."""

KINDS = {"forward": 0, "backward": 1, "input_gradient": 2, "weight_gradient": 3, "forward_backward": 4,
         "recomputation": 5, "recomputing_backward": 6}
LETTERS = {"forward": "F", "backward": "B", "input_gradient": "I", "weight_gradient": "W", "recomputation": "R",
           "recomputing_backward": "C"}
