SELECT a.state, a.paused FROM storage_reaper.arming_state a
