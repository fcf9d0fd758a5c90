//! The real store.

use std::time::Duration;

use super::{
    backend::{Backend, Doing, Failure, Operation, Outcome, Posting},
    link::{Link, LinkState},
    resp::Value,
    scripts::Script,
};

/// A server, over a connection that is kept.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) link: Link,
    pub(super) channel: Vec<u8>,
    pub(super) patience: Duration,
}

impl Backend for Server {
    fn run<'a>(&'a self, operation: Operation<'a>) -> Doing<'a> {
        Box::pin(self.do_it(operation))
    }

    fn post(&self, posting: Posting<'_>) -> Doing<'static> {
        let (link, patience) = (&self.link, self.patience);
        let asked = match posting {
            Posting::Put { name, value, life } => {
                let life = millis(life);
                link.ask(&[b"SET", name.as_bytes(), value, b"PX", life.as_bytes()], patience)
            }
            Posting::Remove { name } => link.ask(&[b"DEL", name.as_bytes()], patience),
            Posting::Tell { message } => link.ask(&[b"PUBLISH", &self.channel, message], patience),
        };
        Box::pin(async move { asked.await.map(|_| Outcome::Done) })
    }

    fn state(&self) -> LinkState {
        self.link.state()
    }
}

impl Server {
    async fn do_it(&self, operation: Operation<'_>) -> Result<Outcome, Failure> {
        let (link, patience) = (&self.link, self.patience);
        match operation {
            Operation::Take { name, gap, slack } => {
                let (gap, slack) = (micros(gap).to_string(), micros(slack).to_string());
                let words = [gap.as_bytes(), slack.as_bytes()];
                let wait = number(link.call(Script::Take, name.as_bytes(), &words, patience).await?)?;
                Ok(Outcome::Wait(Duration::from_micros(u64::try_from(wait).unwrap_or_default())))
            }
            Operation::Get { name, limit_bytes } => {
                let limit = limit_bytes.to_string();
                let found = link.call(Script::Get, name.as_bytes(), &[limit.as_bytes()], patience).await?;
                let Value::List(found) = found else { return Err(Failure::Strange) };
                match found.as_slice() {
                    // What has no end is none of ours.
                    [Value::Bytes(value), Value::Number(left)] => Ok(Outcome::Value(
                        u64::try_from(*left).ok().map(|left| (value.clone(), Duration::from_millis(left))),
                    )),
                    _ => Err(Failure::Strange),
                }
            }
            Operation::Add { group, member, value, limit, life } => {
                let (limit, life) = (limit.to_string(), millis(life));
                let words = [member.as_bytes(), value, limit.as_bytes(), life.as_bytes()];
                let added = number(link.call(Script::Add, group.as_bytes(), &words, patience).await?)?;
                Ok(Outcome::Added(added == 1))
            }
            Operation::Drop { group, member } => {
                link.ask(&[b"HDEL", group.as_bytes(), member.as_bytes()], patience).await?;
                Ok(Outcome::Done)
            }
            Operation::All { group } => match link.ask(&[b"HVALS", group.as_bytes()], patience).await? {
                Value::List(values) => {
                    let values = values.into_iter().map(|value| match value {
                        Value::Bytes(value) => Ok(value),
                        _ => Err(Failure::Strange),
                    });
                    Ok(Outcome::Values(values.collect::<Result<_, _>>()?))
                }
                _ => Err(Failure::Strange),
            },
        }
    }
}

fn number(value: Value) -> Result<i64, Failure> {
    match value {
        Value::Number(number) => Ok(number),
        Value::Bytes(_) | Value::Error(_) | Value::List(_) | Value::Push(_) | Value::Nothing => {
            Err(Failure::Strange)
        }
    }
}

/// At least one: the store has no shorter time.
fn micros(time: Duration) -> u128 {
    time.as_micros().max(1)
}

fn millis(time: Duration) -> String {
    time.as_millis().max(1).to_string()
}
