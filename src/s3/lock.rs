//! Whether a lock keeps an object that the store does not let go.

use std::sync::Arc;

use jiff::Timestamp;
use reqwest::header::HeaderMap;

use crate::domain::backend::Backend;
use crate::domain::batch::{Request, Target};

use super::answer::{KeyAnswer, Verdict, now_us};
use super::client::{Client, Exchanged};
use super::fault::{Fault, FaultKind};
use super::request::{self, Unsigned};

/// Keys of one answer that are asked about; the others are when they are tried again.
const ASKED_AT_ONCE: usize = 16;

impl Client {
    /// Asks why keys were denied. What denies all of several keys denies the credentials.
    pub(super) async fn explained(
        &self,
        backend: &Arc<Backend>,
        request: &Request,
        result: Result<Vec<KeyAnswer>, Fault>,
    ) -> Result<Vec<KeyAnswer>, Fault> {
        let mut answers = match (result, request) {
            (Err(fault), Request::Single { key, .. }) if fault.kind == FaultKind::Denied => {
                let verdict = self.lock_of(backend, request.bucket(), key).await.ok_or(fault)?;
                vec![KeyAnswer { index: 0, verdict }]
            }
            (result, _) => result?,
        };
        let is_denied = |answer: &&mut KeyAnswer| matches!(answer.verdict, Verdict::Denied { .. });
        let mut asked = 0;
        for answer in answers.iter_mut().filter(is_denied).take(ASKED_AT_ONCE) {
            asked = answer.index + 1;
            if let Some(locked) = self.lock_of(backend, request.bucket(), &request.targets()[answer.index]).await {
                answer.verdict = locked;
            }
        }
        if answers.iter().any(|answer| matches!(answer.verdict, Verdict::Locked { .. })) {
            // So may be those behind the ones that were asked about.
            for answer in answers.iter_mut().skip(asked).filter(is_denied) {
                if let Verdict::Denied { message } = &answer.verdict {
                    answer.verdict = Verdict::Unasked { message: message.clone() };
                }
            }
        }
        match answers.as_slice() {
            [KeyAnswer { verdict: Verdict::Denied { message }, .. }, _, ..]
                if answers.iter().all(|answer| matches!(answer.verdict, Verdict::Denied { .. })) =>
            {
                Err(Fault::refusal(FaultKind::Denied, format!("the store does not allow it for any key: {message}")))
            }
            _ => Ok(answers),
        }
    }

    async fn lock_of(&self, backend: &Arc<Backend>, bucket: &str, key: &Target) -> Option<Verdict> {
        let single = Request::Single { backend: backend.id, bucket: bucket.to_owned(), key: key.clone() };
        self.lock(backend, &request::build(backend, &single).ok()?).await
    }

    /// The lock of what a request would delete, if there is one and the store shows it.
    pub(super) async fn lock(&self, backend: &Arc<Backend>, unsigned: &Unsigned) -> Option<Verdict> {
        let Exchanged { status, headers, .. } = self.ask(backend, request::head(unsigned)).await.ok()?;
        (status == 200).then(|| locked(&headers, now_us())).flatten()
    }
}

/// What the head of an object says of its lock.
fn locked(headers: &HeaderMap, now_us: i64) -> Option<Verdict> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if text("x-amz-object-lock-legal-hold") == Some("ON") {
        return Some(Verdict::Locked { until_us: None });
    }
    let until: Timestamp = text("x-amz-object-lock-retain-until-date")?.parse().ok()?;
    let until_us = until.as_microsecond();
    (until_us > now_us).then_some(Verdict::Locked { until_us: Some(until_us) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_has_ended_keeps_an_object_for_ever() {
        let head = |named: &[(&'static str, &str)]| -> HeaderMap {
            named.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
        };
        let until = |date| locked(&head(&[("x-amz-object-lock-retain-until-date", date)]), 1_000_000);
        assert_eq!(until("1970-01-01T00:00:02Z"), Some(Verdict::Locked { until_us: Some(2_000_000) }));
        assert_eq!(until("1970-01-01T00:00:02.500Z"), Some(Verdict::Locked { until_us: Some(2_500_000) }));
        assert_eq!(until("1970-01-01T00:00:01Z"), None);
        assert_eq!(until("tomorrow"), None);
        let on_hold = head(&[("x-amz-object-lock-legal-hold", "ON")]);
        assert_eq!(locked(&on_hold, 0), Some(Verdict::Locked { until_us: None }));
        assert_eq!(locked(&head(&[("x-amz-object-lock-legal-hold", "OFF")]), 0), None);
    }
}
