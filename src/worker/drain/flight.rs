//! Flights: objects are marked before they are checked, so that whoever writes a row that names one can be waited for,
//! or waits. The protocol stands in domain/flight.rs.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::domain::backend::BackendId;
use crate::domain::flight::{Marks, object_marks, row_mark, share_mark};
use crate::domain::object::Object;
use crate::domain::resolve::{Namespace, Prints, prints};
use crate::guc;
use crate::pg::{lock, shared, transaction, utility};
use crate::store::{backend, flight};

use super::super::guard::{Candidate, Origin, Parent};
use super::look::namespace;
use super::{Drain, Fate, Place, Planned, SHORT};

/// Flights that wait for older writers: enough for a long transaction not to stop everything behind it for its length.
pub(super) const MOST_MARKED: usize = 32;
/// How often the writers are looked for that a flight waits for; nothing tells when the last one ends.
const CLOSE_EVERY: Duration = Duration::from_millis(100);

/// Whether a flight could be closed.
enum Close {
    Closed,
    /// Somebody is writing who was writing when it was marked.
    Waits,
    /// A writer of one of its objects has joined it, or something is being declared.
    Joined,
}

/// Objects that are marked together.
pub(super) struct Flight {
    pub id: i64,
    /// All of its objects are there.
    pub backend: BackendId,
    /// Who was writing when it was marked has a lower transaction id.
    pub horizon: u64,
    /// There was a fence when it was marked.
    is_fenced: bool,
    /// All of them have ended.
    has_waited: bool,
    pub objects: Vec<(Place, Object)>,
    marks: Marks,
    of_place: HashMap<Place, Vec<i64>>,
    /// By which it was marked, and the fingerprints that follow from that.
    namespace: Arc<Namespace>,
    prints: HashMap<Place, Prints>,
    /// Requests that are ready or sent.
    pub requests: usize,
    gone: Vec<i64>,
    unclear: Vec<i64>,
}

impl Flight {
    /// Whether it may go on now that there is, or is not, a fence.
    pub fn is_safe(&self, is_fenced: bool) -> bool {
        !is_fenced || self.is_fenced && self.has_waited
    }

    /// The fingerprints of an object, if they and the marks still tell all its spellings.
    pub fn take_prints(&mut self, place: Place, namespace: &Arc<Namespace>) -> Option<Prints> {
        if Arc::ptr_eq(&self.namespace, namespace) { self.prints.remove(&place) } else { None }
    }

    /// Whether the marks still tell all spellings of an object.
    pub fn covers(&self, candidate: &Candidate, namespace: &Namespace) -> bool {
        let Candidate { object, prints, origin, parent } = candidate;
        marks_of(object, prints, origin, parent.as_ref(), namespace).iter().all(|mark| self.marks.contains(*mark))
    }

    fn note(&self, places: &[Place]) -> Vec<i64> {
        places.iter().filter_map(|place| self.of_place.get(place)).flatten().copied().collect()
    }
}

/// What was marked.
struct Marked {
    id: i64,
    is_fenced: bool,
    marks: Marks,
    of_place: HashMap<Place, Vec<i64>>,
    namespace: Namespace,
    prints: HashMap<Place, Prints>,
}

fn marks_of(
    object: &Object,
    prints: &Prints,
    origin: &Origin,
    parent: Option<&Parent>,
    namespace: &Namespace,
) -> Vec<i64> {
    let mut marks = object_marks(object, prints, namespace);
    // Who writes a row that names what it goes with waits, too.
    marks.extend(parent.iter().flat_map(|parent| object_marks(&parent.object, &parent.prints, namespace)));
    if let Some(source) = origin.source_id {
        marks.extend(origin.row_id.as_ref().map(|row| row_mark(source, row)));
        marks.extend(origin.shares.as_ref().filter(|value| !value.is_empty()).map(|value| share_mark(source, value)));
    }
    marks
}

impl Drain {
    /// Marks the next objects of a backend that has room, and commits that.
    pub(super) fn mark_next(&mut self, now: Instant) -> bool {
        let Some((backend, objects)) = self.next_waiting() else { return false };
        // What a row names anyway never flies: its writers would have to wait for nothing.
        let objects = if self.guard.is_fenced() {
            match self.without_kept(objects, None, now) {
                Some((free, _)) => free,
                None => return false,
            }
        } else {
            objects
        };
        if objects.is_empty() {
            return true;
        }
        let to_mark: Vec<_> =
            objects.iter().map(|(place, object)| (*place, object.clone(), self.origin(*place))).collect();
        shared::announce_flights(true);
        let marked = transaction::run("storage_reaper: mark", SHORT, move || {
            let (namespace, _) = namespace()?;
            let mut all_prints = HashMap::with_capacity(to_mark.len());
            let mut of_place: HashMap<Place, Vec<i64>> = HashMap::with_capacity(to_mark.len());
            for (place, object, origin) in &to_mark {
                let prints = prints(object, &namespace);
                let parent = Parent::of(object, origin, &namespace);
                of_place.insert(*place, marks_of(object, &prints, origin, parent.as_ref(), &namespace));
                all_prints.insert(*place, prints);
            }
            let marks = Marks::new(of_place.values().flatten().copied());
            let is_fenced = flight::is_fenced()?;
            let id = flight::mark(&marks, is_fenced)?;
            Ok(Marked { id, is_fenced, marks, of_place, namespace, prints: all_prints })
        });
        match marked {
            Ok(Marked { id, is_fenced, marks, of_place, namespace, prints }) => {
                // Taken after the commit: whoever has not seen the mark is below it.
                let horizon = transaction::next_id();
                let namespace = self.known(namespace);
                self.marked.push_back(Flight {
                    id,
                    backend,
                    horizon,
                    is_fenced,
                    has_waited: false,
                    objects,
                    marks,
                    of_place,
                    namespace,
                    prints,
                    requests: 0,
                    gone: Vec::new(),
                    unclear: Vec::new(),
                });
                true
            }
            Err(failure) => {
                self.put_back(objects);
                self.give_back_unsent();
                self.be_quiet("could not mark objects", &failure, now);
                false
            }
        }
    }

    /// The next objects of one backend that has room.
    fn next_waiting(&mut self) -> Option<(BackendId, Vec<(Place, Object)>)> {
        let full = self.full();
        let backend = self.waiting.iter().map(|(_, object)| object.backend).find(|id| !full.contains(id))?;
        let window = self.window(backend);
        let (mut objects, mut others) = (Vec::new(), VecDeque::new());
        for waiting in std::mem::take(&mut self.waiting) {
            if waiting.1.backend == backend && objects.len() < window {
                objects.push(waiting);
            } else {
                others.push_back(waiting);
            }
        }
        self.waiting = others;
        Some((backend, objects))
    }

    /// The first flight whose backend has room.
    fn first_marked(&self) -> Option<usize> {
        let full = self.full();
        self.marked.iter().position(|flight| !full.contains(&flight.backend))
    }

    /// The next flight that may be checked, closed to writers; marks objects until there is one.
    pub(super) fn next_closed(&mut self, now: Instant) -> Option<Flight> {
        while self.first_marked().is_none() {
            if !self.mark_next(now) {
                return None;
            }
        }
        if self.close_at.is_none_or(|at| at <= now)
            && let Some(first) = self.first_marked()
            && let Some(mut flight) = self.marked.remove(first)
        {
            self.close_at = None;
            match self.may_close(&mut flight, now) {
                Close::Closed => return Some(flight),
                Close::Waits => self.marked.insert(first, flight),
                // A row may name one of its objects now: it is looked at again before it is marked again.
                Close::Joined => self.turn_back(flight),
            }
            self.close_at = Some(now + CLOSE_EVERY);
        }
        // Those behind it wait for the same writers, and had better begin now.
        while self.marked.len() < MOST_MARKED && !self.is_quiet(now) && self.mark_next(now) {}
        None
    }

    fn may_close(&mut self, flight: &mut Flight, now: Instant) -> Close {
        if flight.is_fenced && !flight.has_waited {
            let horizon = flight.horizon;
            match transaction::run("storage_reaper: wait for writers", SHORT, move || flight::has_passed(horizon)) {
                Ok(passed) => flight.has_waited = passed,
                Err(failure) => self.be_quiet("could not look for writers", &failure, now),
            }
            if !flight.has_waited {
                return Close::Waits;
            }
        }
        if lock::close_flight(flight.id) { Close::Closed } else { Close::Joined }
    }

    /// Says, when somebody may care, that requests leave. Then nothing but the requests themselves may come.
    pub(super) fn take_off(&mut self, flight: &Flight, now: Instant) -> bool {
        let id = flight.id;
        if flight.is_fenced
            && let Err(failure) = transaction::run("storage_reaper: take off", SHORT, move || flight::send(id))
        {
            self.be_quiet("could not mark objects as sent", &failure, now);
            return false;
        }
        // After a transaction that failed it was open for a moment.
        lock::has_kept_closed(id) && lock::leads()
    }

    /// A flight that nothing was sent of ends, and its objects get this fate.
    pub(super) fn call_off(&mut self, mut flight: Flight, fate: Fate) {
        for (place, _) in std::mem::take(&mut flight.objects) {
            self.decide(place, fate.clone());
        }
        flight.requests = 0;
        // Nothing left: writers need not wait until its end is written down.
        lock::open_flight(flight.id);
        self.aloft.insert(flight.id, flight);
    }

    /// A flight that nothing was sent of ends, and its objects are marked anew.
    pub(super) fn turn_back(&mut self, mut flight: Flight) {
        self.put_back(std::mem::take(&mut flight.objects));
        self.call_off(flight, Fate::Postponed(None));
    }

    /// A request is over: which of its objects are gone, or may be, and which a request may still remove.
    pub(super) fn return_from(&mut self, planned: &Planned, gone: &[Place], unclear: &[Place]) {
        if let Some(flight) = self.aloft.get_mut(&planned.flight) {
            flight.requests = flight.requests.saturating_sub(1);
            let (gone, unclear) = (flight.note(gone), flight.note(unclear));
            flight.gone.extend(gone.into_iter().chain(unclear.iter().copied()));
            flight.unclear.extend(unclear);
        }
    }

    /// Ends flights whose requests are over, and lets writers go on that wait for them.
    pub(super) fn land(&mut self, now: Instant) {
        let over: Vec<i64> = self.aloft.iter().filter(|(_, flight)| flight.requests == 0).map(|(id, _)| *id).collect();
        if over.is_empty() {
            return;
        }
        let ends: Vec<_> = over
            .iter()
            .filter_map(|id| self.aloft.get(id))
            .map(|flight| (flight.id, Marks::new(flight.gone.clone()), Marks::new(flight.unclear.clone())))
            .collect();
        let linger = guc::fence_linger();
        let ended = transaction::run("storage_reaper: land", SHORT, move || {
            ends.iter().try_for_each(|(id, gone, unclear)| flight::end(*id, gone, unclear, linger))
        });
        match ended {
            Ok(()) => {
                for id in over {
                    lock::open_flight(id);
                    self.aloft.remove(&id);
                }
                self.forget_at = Some(now);
            }
            Err(failure) => self.be_quiet("could not end a flight", &failure, now),
        }
    }

    /// Ends what another leader left behind, once, clocks too; forgets what no writer needs any more, and says what is left.
    pub(super) fn tidy_flights(&mut self, now: Instant) {
        let is_time =
            if self.has_adopted { self.forget_at.is_some_and(|at| at <= now) } else { self.is_time_to_look(now) };
        if self.is_quiet(now) || !is_time {
            return;
        }
        let (has_adopted, linger) = (self.has_adopted, guc::fence_linger());
        let left = transaction::run("storage_reaper: tidy flights", SHORT, move || {
            if !utility::extension_is_installed() {
                return Ok(None);
            }
            if !has_adopted {
                flight::adopt(linger)?;
                backend::forget_clocks()?;
            }
            flight::forget().map(Some)
        });
        match left {
            Ok(Some(left)) => {
                self.has_adopted = true;
                let is_idle = self.marked.is_empty() && self.aloft.is_empty();
                shared::announce_flights(left.any || !is_idle);
                self.forget_at = left.look_in.map(|wait| now + wait);
            }
            Ok(None) => self.forget_at = None,
            Err(failure) => self.be_quiet("could not tidy flights", &failure, now),
        }
    }
}
