"""What an answer teaches, written back: records, lineage, evidence by independence, feedback, findings."""
