"""Documents become memories: walk → plan → parse → chunk → embed → write → switch → report."""
