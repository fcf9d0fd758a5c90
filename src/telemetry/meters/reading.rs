//! What all meters show at one moment, for whoever writes it down.

use std::{borrow::Cow, collections::HashMap};

use super::histogram::Durations;

/// What is told by name: families in the order in which they were first named.
#[derive(Debug, Default)]
pub struct Reading(Vec<Family>);

/// Points of one name.
#[derive(Debug)]
pub struct Family {
    /// Its name, without the `_total` of a counter.
    pub name: &'static str,
    /// What it is, for people.
    pub help: &'static str,
    /// Whether it only grows.
    pub kind: Kind,
    points: Vec<(Labels, Value)>,
    known: HashMap<Labels, usize>,
}

/// How the points of a family change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// They only grow, as long as the process lives.
    Counter,
    /// They go up and down.
    Gauge,
    /// They are durations, counted in ranges.
    Histogram,
}

/// What tells a point from others of its family.
pub type Labels = Vec<(&'static str, Cow<'static, str>)>;

/// What a point shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A whole number.
    Whole(u64),
    /// A number.
    Real(f64),
    /// Durations.
    Durations(Durations),
}

impl Reading {
    /// All that was told.
    pub fn families(&self) -> &[Family] {
        &self.0
    }

    /// A counter; `name` is without `_total`.
    pub fn counter(&mut self, name: &'static str, help: &'static str) -> &mut Family {
        self.family(name, help, Kind::Counter)
    }

    /// A gauge.
    pub fn gauge(&mut self, name: &'static str, help: &'static str) -> &mut Family {
        self.family(name, help, Kind::Gauge)
    }

    /// Durations.
    pub fn histogram(&mut self, name: &'static str, help: &'static str) -> &mut Family {
        self.family(name, help, Kind::Histogram)
    }

    fn family(&mut self, name: &'static str, help: &'static str, kind: Kind) -> &mut Family {
        let place = self.0.iter().position(|family| family.name == name).unwrap_or_else(|| {
            self.0.push(Family { name, help, kind, points: Vec::new(), known: HashMap::new() });
            self.0.len() - 1
        });
        &mut self.0[place]
    }
}

impl Family {
    /// Its points.
    pub fn points(&self) -> &[(Labels, Value)] {
        &self.points
    }

    /// Tells of a point. One with the same labels as another is added to that.
    pub fn add(&mut self, labels: Labels, value: impl Into<Value>) {
        let value = value.into();
        match self.known.get(&labels) {
            Some(place) => self.points[*place].1.add(value),
            None => {
                self.known.insert(labels.clone(), self.points.len());
                self.points.push((labels, value));
            }
        }
    }

    /// Tells of the only point that there is.
    pub fn set(&mut self, value: impl Into<Value>) {
        self.add(Vec::new(), value);
    }
}

impl Value {
    fn add(&mut self, other: Self) {
        match (&mut *self, other) {
            (Self::Whole(one), Self::Whole(other)) => *one += other,
            (Self::Real(one), Self::Real(other)) => *one += other,
            (Self::Durations(one), Self::Durations(other)) => one.add(&other),
            (Self::Whole(_) | Self::Real(_) | Self::Durations(_), _) => *self = other,
        }
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Whole(number as u64)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Whole(flag.into())
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl From<Durations> for Value {
    fn from(durations: Durations) -> Self {
        Self::Durations(durations)
    }
}
