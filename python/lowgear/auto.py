"""`import lowgear.auto` as the first line of a training script attaches to its framework, where a LOWGEAR_*
variable asks for it: what `lowgear run` does without that line."""

from .adapters.core import activate

activate()
