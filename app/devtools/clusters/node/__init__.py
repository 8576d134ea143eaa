"""The node of a bare sandbox: Pods of Berth's own image as processes of this machine, and Services that reach them."""
