"""Studies: long experiments with progress, partial results and a stored end.

A study is a coroutine on the event loop. Every batch of it is a question of its own at the model's lane, so it takes
turns with what people ask meanwhile, is priced as any question, and stops between two layers. The job's own thread only
waits for the coroutine and looks whether the job was cancelled: it touches no model.
"""
