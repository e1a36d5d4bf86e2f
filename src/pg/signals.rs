//! The signal mask of threads that are not PostgreSQL's.

use std::mem::MaybeUninit;

/// All signals are blocked on this thread while the value lives.
pub struct Blocked {
    previous: libc::sigset_t,
}

/// Blocks every signal; threads that are started now inherit that.
pub fn block_all() -> Blocked {
    let mut all = MaybeUninit::uninit();
    let mut previous = MaybeUninit::uninit();
    // SAFETY: sigfillset initialises the first set, pthread_sigmask writes the second one.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), previous.as_mut_ptr());
        Blocked { previous: previous.assume_init() }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: puts back the mask that was read before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.previous, std::ptr::null_mut()) };
    }
}
