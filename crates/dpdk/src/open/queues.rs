//! Queues of the lanes of a port.

use mpps_io::Roles;

/// Which lane has which receive queue, and which transmit queue.
pub(super) struct Queues {
    pub(super) lanes: Vec<(Option<u16>, Option<u16>)>,
    pub(super) receiving: u16,
    pub(super) sending: u16,
}

impl Queues {
    /// Receiving lanes in order, and sending lanes in order: the other end of a memif has queue 0 for certain, and a
    /// queue that nobody reads would swallow packets. If none receives, the first does: questions for our address
    /// come in there. If none sends, all may: they answer. `paired`: the driver wants as many of the one as of the
    /// other.
    pub(super) fn of(roles: &[Roles], paired: bool) -> Self {
        let (deaf, mute) = (!roles.iter().any(|role| role.rx), !roles.iter().any(|role| role.tx));
        let (mut receiving, mut sending) = (0, 0);
        let next = |count: &mut u16| {
            *count += 1;
            *count - 1
        };
        let lanes = roles.iter().enumerate().map(|(index, role)| {
            let rx = (role.rx || (deaf && (index == 0 || paired))).then(|| next(&mut receiving));
            let tx = (role.tx || mute).then(|| next(&mut sending));
            (rx, tx)
        });
        let lanes = lanes.collect();
        Self {
            lanes,
            receiving,
            sending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_have_queues_in_order_one_listens_where_none_receives_and_all_answer_where_none_sends() {
        let (rx, tx) = (Roles { rx: true, tx: false }, Roles { rx: false, tx: true });
        let split = Queues::of(&[tx, rx, rx], false);
        assert_eq!(split.lanes, [(None, Some(0)), (Some(0), None), (Some(1), None)]);
        assert_eq!((split.receiving, split.sending), (2, 1));
        let senders = Queues::of(&[tx, tx], false);
        assert_eq!(senders.lanes, [(Some(0), Some(0)), (None, Some(1))]);
        assert_eq!(Queues::of(&[tx, tx], true).receiving, 2);
        let listeners = Queues::of(&[rx, rx], false);
        assert_eq!(listeners.lanes, [(Some(0), Some(0)), (Some(1), Some(1))]);
    }
}
