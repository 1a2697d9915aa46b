"""What the weights say of every head: a job whose numbers become columns of the table (assets/heads_weights.js)."""

from backend.schema import SummariesAsk
from frontend.parts.following import Following, follow

JOB = Following("heads-weights")

follow(JOB, {"heads": SummariesAsk})
