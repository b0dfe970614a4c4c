//! Which work of which stream is known to come before which: where a free in another stream needs an
//! event, and where the program has already waited.

/// Positions count operations from 1; 0 is before all.
pub(super) struct StreamOrder {
    n_streams: usize,
    /// `[to * n + from]`: what `to` submits next runs after what `from` submitted up to this position.
    behind: Vec<u32>,
    /// `[from]`: what anyone submits next runs after what `from` submitted up to this position, because the
    /// host has waited for it.
    seen: Vec<u32>,
}

impl StreamOrder {
    pub(super) fn new(n_streams: usize) -> StreamOrder {
        StreamOrder {
            n_streams,
            behind: vec![0; n_streams * n_streams],
            seen: vec![0; n_streams],
        }
    }

    /// Whether what `to` submits next runs after what `from` submitted at `position`.
    pub(super) fn is_behind(&self, to: usize, from: usize, position: u32) -> bool {
        to == from || self.seen[from].max(self.behind[to * self.n_streams + from]) >= position
    }

    /// `to` waits for all that `from` submitted up to `position`, and so for all that that waited for.
    pub(super) fn wait(&mut self, to: usize, from: usize, position: u32) {
        for other in 0..self.n_streams {
            let known = self.behind[from * self.n_streams + other];
            let entry = &mut self.behind[to * self.n_streams + other];
            *entry = known.max(*entry);
        }
        self.behind[to * self.n_streams + from] = position;
    }

    /// The host waits for all that `stream` submitted up to `position`.
    pub(super) fn synchronize(&mut self, stream: usize, position: u32) {
        for other in 0..self.n_streams {
            let known = self.behind[stream * self.n_streams + other];
            self.seen[other] = self.seen[other].max(known);
        }
        self.seen[stream] = position;
    }

    /// The host waits for the device.
    pub(super) fn synchronize_all(&mut self, position: u32) {
        self.seen.fill(position);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_carries_what_the_other_waited_for() {
        let mut order = StreamOrder::new(3);
        order.wait(1, 0, 5);
        assert!(order.is_behind(1, 0, 5));
        assert!(!order.is_behind(1, 0, 6), "submitted after the wait");
        assert!(!order.is_behind(2, 0, 5), "another stream");
        order.wait(2, 1, 7);
        assert!(order.is_behind(2, 1, 7) && order.is_behind(2, 0, 5));
        assert!(!order.is_behind(0, 1, 7), "waits have one direction");
    }

    #[test]
    fn what_the_host_waited_for_is_behind_all() {
        let mut order = StreamOrder::new(3);
        order.wait(1, 0, 5);
        order.synchronize(1, 8);
        for to in 0..3 {
            assert!(order.is_behind(to, 1, 8) && order.is_behind(to, 0, 5), "{to}");
        }
        assert!(!order.is_behind(2, 0, 6));
        order.synchronize_all(9);
        assert!(order.is_behind(2, 0, 9));
    }
}
