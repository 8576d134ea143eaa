"""Rules, workloads and companions: what runs on DPUs because of what runs on hosts."""
