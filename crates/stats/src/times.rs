//! The times that are measured of each packet, and a value for each of them.

use std::ops::{Index, IndexMut};

/// Time that is measured of a packet that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// From the actual send time to the lane's reading.
    Latency,
    /// From the scheduled send time to the lane's reading.
    Scheduled,
    /// From the actual send time to the arrival, which kernel or card have noted.
    Arrival,
    /// From the arrival to the lane's reading.
    WakeUp,
}

impl Time {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Latency, Self::Scheduled, Self::Arrival, Self::WakeUp];

    /// Returns those that have histograms: the last two only if arrivals are `noted`.
    pub fn ranked(noted: bool) -> &'static [Self] {
        let [latency @ .., _, _] = &Self::ALL;
        if noted { &Self::ALL } else { latency }
    }
}

/// One value for each [`Time`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times<T>(pub [T; Time::ALL.len()]);

impl<T> Times<T> {
    /// Makes the value of each time.
    pub fn of(value: impl FnMut(Time) -> T) -> Self {
        Self(Time::ALL.map(value))
    }

    /// Returns each value, writable.
    pub(crate) fn each_mut(&mut self) -> Times<&mut T> {
        Times(self.0.each_mut())
    }

    /// Returns the values beside those of `others`.
    pub(crate) fn zip_mut<'a, U>(
        &'a mut self,
        others: &'a mut Times<U>,
    ) -> impl Iterator<Item = (&'a mut T, &'a mut U)> {
        self.0.iter_mut().zip(&mut others.0)
    }
}

impl<T> Index<Time> for Times<T> {
    type Output = T;

    #[inline]
    fn index(&self, time: Time) -> &T {
        &self.0[time as usize]
    }
}

impl<T> IndexMut<Time> for Times<T> {
    #[inline]
    fn index_mut(&mut self, time: Time) -> &mut T {
        &mut self.0[time as usize]
    }
}

/// Times of one packet that came, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// From sending to the lane's reading.
    pub latency_ns: u64,
    /// From sending to the arrival, at most the former; `None` if only the lane has taken a time.
    pub arrival_ns: Option<u64>,
}

impl Delay {
    /// Makes the times of a packet by the instants at which it was sent, arrived and was read, ns. Two clocks may
    /// differ by a little: no part is negative, or longer than the whole.
    #[inline]
    pub fn of(sent_ns: u64, arrived_ns: Option<u64>, read_ns: u64) -> Self {
        let latency_ns = read_ns.saturating_sub(sent_ns);
        Self {
            latency_ns,
            arrival_ns: arrived_ns.map(|at| at.saturating_sub(sent_ns).min(latency_ns)),
        }
    }

    /// Returns the time by which a packet is late or not, ns: a lane that reads late makes no packet late.
    #[inline]
    pub fn until_arrival_ns(&self) -> u64 {
        self.arrival_ns.unwrap_or(self.latency_ns)
    }
}
