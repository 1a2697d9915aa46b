"""The GPU server of LMScope, room by room; a room imports only from the rooms before it.

schema    what both sides agree on (pydantic and the standard library)
errors    what can go wrong, each with a status, what, why and what to do instead
measure   tensors in, tensors out: the mathematics and its sources
models    whatever knows a Hugging Face module: anatomy, taps, plan, forward, tokens, shelf
desk      when something runs: queue, cost, cancel, answers kept, jobs
access    who may do what
routes    one thin HTTP file per instrument
app       one FastAPI application out of all of them
"""
