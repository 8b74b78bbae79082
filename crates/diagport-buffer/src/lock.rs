//! One way to take a lock: no foreign code runs under our locks, so a poisoned one still holds consistent data.

use std::sync::PoisonError;

use crate::sync::{Mutex, MutexGuard};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
