//! Requests with data between their submission and their completion, and those whose completion a recording lacks.

use std::collections::{BTreeMap, VecDeque};

/// A request is lost after so many times the task's greatest number in flight have overtaken it.
const OVERTAKEN_ROUNDS: u64 = 8;

/// Device and first sector of a request.
pub(super) type Place = (u32, u64);

/// What a request with data is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DataRequest {
    Read,
    /// A read into the page cache.
    CachedRead,
    Write,
}

/// A request on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PendingRequest {
    pub(super) task: u32,
    pub(super) kind: DataRequest,
    /// Number of the request among all.
    number: u64,
}

/// A task's requests.
#[derive(Clone, Debug, Default)]
struct TaskRequests {
    in_flight: u64,
    most_in_flight: u64,
    ended: u64,
    /// Numbers of requests in order of their submission, with the task's ended ones until then. May have ended requests.
    order: VecDeque<(u64, u64)>,
}

/// All requests on their way, by place.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestsInFlight {
    by_place: BTreeMap<Place, PendingRequest>,
    places: BTreeMap<u64, Place>,
    by_task: BTreeMap<u32, TaskRequests>,
    submitted: u64,
}

impl RequestsInFlight {
    pub(super) fn len(&self) -> usize {
        self.by_place.len()
    }

    pub(super) fn has_request_at(&self, place: Place) -> bool {
        self.by_place.contains_key(&place)
    }

    /// Adds a task's request at a place without one.
    pub(super) fn add_request(&mut self, place: Place, task: u32, kind: DataRequest) {
        self.submitted += 1;
        let number = self.submitted;
        let request = PendingRequest { task, kind, number };
        self.by_place.insert(place, request);
        self.places.insert(number, place);
        let requests = self.by_task.entry(task).or_default();
        requests.in_flight += 1;
        requests.most_in_flight = requests.most_in_flight.max(requests.in_flight);
        requests.order.push_back((number, requests.ended));
    }

    /// Notes that a stacked device sends a request on to another place.
    pub(super) fn move_request(&mut self, from: Place, to: Place) {
        let Some(request) = self.by_place.remove(&from) else {
            return;
        };
        self.places.insert(request.number, to);
        if let Some(replaced) = self.by_place.insert(to, request) {
            self.count_removed(replaced);
        }
    }

    /// Ends the first request between two places; the second one is not included.
    pub(super) fn end_request_between(
        &mut self,
        first: Place,
        end: Place,
    ) -> Option<PendingRequest> {
        let place = *self.by_place.range(first..end).next()?.0;
        let request = self.by_place.remove(&place)?;
        self.count_removed(request);
        if let Some(requests) = self.by_task.get_mut(&request.task) {
            requests.ended += 1;
        }
        Some(request)
    }

    fn count_removed(&mut self, request: PendingRequest) {
        self.places.remove(&request.number);
        if let Some(requests) = self.by_task.get_mut(&request.task) {
            requests.in_flight = requests.in_flight.saturating_sub(1);
        }
    }

    /// Forgets a task's oldest request if too many later ones have ended: the recording lacks its completion.
    pub(super) fn forget_lost_request(&mut self, task: u32) -> Option<PendingRequest> {
        let requests = self.by_task.get_mut(&task)?;
        while let Some((number, _)) = requests.order.front()
            && !self.places.contains_key(number)
        {
            requests.order.pop_front();
        }
        let (number, ended_before) = *requests.order.front()?;
        // The lost request itself counts as in flight.
        let depth = requests.most_in_flight.saturating_sub(1).max(1);
        let overtaken = requests.ended.saturating_sub(ended_before);
        if overtaken <= OVERTAKEN_ROUNDS.saturating_mul(depth) {
            return None;
        }
        let place = *self.places.get(&number)?;
        let lost = self.by_place.remove(&place)?;
        self.count_removed(lost);
        Some(lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end_at(requests: &mut RequestsInFlight, sector: u64) -> Option<PendingRequest> {
        requests.end_request_between((1, sector), (1, sector + 8))
    }

    #[test]
    fn a_request_that_many_of_its_task_overtake_is_lost() {
        let mut requests = RequestsInFlight::default();
        requests.add_request((1, 0), 7, DataRequest::Write);
        for number in 1..=OVERTAKEN_ROUNDS + 1 {
            assert_eq!(requests.forget_lost_request(7), None, "{number}");
            requests.add_request((1, number * 8), 7, DataRequest::Write);
            assert!(end_at(&mut requests, number * 8).is_some());
        }
        let lost = requests.forget_lost_request(7);
        assert_eq!(
            lost.map(|lost| (lost.task, lost.kind)),
            Some((7, DataRequest::Write))
        );
        assert!(requests.len() == 0 && requests.places.is_empty());
        assert_eq!(end_at(&mut requests, 0), None);
        assert_eq!(requests.forget_lost_request(7), None);
    }

    #[test]
    fn a_request_of_a_deep_queue_may_be_late() {
        let mut requests = RequestsInFlight::default();
        for number in 0..32 {
            requests.add_request((1, number * 8), 7, DataRequest::Read);
        }
        for number in 32..200 {
            assert!(end_at(&mut requests, (number - 31) * 8).is_some());
            requests.add_request((1, number * 8), 7, DataRequest::Read);
            assert_eq!(requests.forget_lost_request(7), None, "{number}");
        }
        assert!(end_at(&mut requests, 0).is_some());
    }

    #[test]
    fn a_request_that_goes_on_to_another_device_ends_there() {
        let mut requests = RequestsInFlight::default();
        requests.add_request((2, 0), 7, DataRequest::Read);
        requests.move_request((2, 0), (1, 80));
        assert!(requests.has_request_at((1, 80)) && !requests.has_request_at((2, 0)));
        assert_eq!(
            end_at(&mut requests, 80).map(|request| request.task),
            Some(7)
        );
        requests.move_request((1, 80), (3, 0));
        assert_eq!(requests.len(), 0);
    }
}
