"""The herder of a worker that shares its work with others of its group, and remembers it in topics.

herder    the operations of users; most of them go to the loop as requests
loop      the herder's thread: membership, changes of the config topic, restarts
local_work, task_reconfiguration, zombie_fencing    what the thread has done
configurations, pending_changes    what is known of the config topic, and what is to be done about it
"""
