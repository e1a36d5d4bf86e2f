//! One connection to one database, with answers as text.

use std::fmt;

use anyhow::{Context, Result, bail};
use postgres::{Client, SimpleQueryMessage};

/// A database as a scenario sees it.
pub struct Database {
    client: Client,
}

/// What the server said when it refused a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The SQLSTATE.
    pub code: String,
    /// The primary message.
    pub message: String,
    /// The DETAIL, empty if there was none.
    pub detail: String,
    /// The HINT, empty if there was none.
    pub hint: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} DETAIL: {} HINT: {}", self.code, self.message, self.detail, self.hint)
    }
}

impl Database {
    /// Takes over a connection.
    pub fn over(client: Client) -> Database {
        Database { client }
    }

    /// Runs statements and drops their rows; several at once are one transaction, as in `psql -c`.
    pub fn run(&mut self, sql: &str) -> Result<()> {
        self.client.batch_execute(sql).map_err(|error| told(error, sql))
    }

    /// All rows, NULL as `∅`, columns separated by `|`.
    pub fn rows(&mut self, sql: &str) -> Result<Vec<String>> {
        let messages = self.client.simple_query(sql).map_err(|error| told(error, sql))?;
        let row = |message| match message {
            SimpleQueryMessage::Row(row) => {
                let column = |i| row.get(i).unwrap_or("∅").to_owned();
                Some((0..row.len()).map(column).collect::<Vec<_>>().join("|"))
            }
            _ => None,
        };
        Ok(messages.into_iter().filter_map(row).collect())
    }

    /// The only row.
    pub fn row(&mut self, sql: &str) -> Result<String> {
        let mut rows = self.rows(sql)?;
        match (rows.pop(), rows.is_empty()) {
            (Some(row), true) => Ok(row),
            (None, _) => bail!("no row from {sql}"),
            (Some(_), false) => bail!("more than one row from {sql}"),
        }
    }

    /// The only value, as a number.
    pub fn number(&mut self, sql: &str) -> Result<i64> {
        let row = self.row(sql)?;
        row.parse().with_context(|| format!("{row:?} is no number, from {sql}"))
    }

    /// Whether the only value is true.
    pub fn holds(&mut self, sql: &str) -> Result<bool> {
        Ok(self.row(sql)? == "t")
    }

    /// The server's refusal of a statement that must not succeed.
    pub fn refusal(&mut self, sql: &str) -> Result<Refusal> {
        match self.client.simple_query(sql) {
            Ok(_) => bail!("was accepted but should not have been: {sql}"),
            Err(error) => refusal(&error).with_context(|| format!("{error}, from {sql}")),
        }
    }

    /// The connection itself.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }
}

fn refusal(error: &postgres::Error) -> Option<Refusal> {
    let error = error.as_db_error()?;
    Some(Refusal {
        code: error.code().code().to_owned(),
        message: error.message().to_owned(),
        detail: error.detail().unwrap_or_default().to_owned(),
        hint: error.hint().unwrap_or_default().to_owned(),
    })
}

fn told(error: postgres::Error, sql: &str) -> anyhow::Error {
    match refusal(&error) {
        Some(refusal) => anyhow::anyhow!("{refusal}\nfrom: {sql}"),
        None => anyhow::anyhow!("{error}\nfrom: {sql}"),
    }
}
