//! What is wrong, or may be: a statement for each kind of finding.

use crate::error::Result;

use super::spi;

/// Something that a person should know.
pub struct Finding {
    /// `error`: something does not work. `warning`: it may not do what is expected. `notice`: it could be better.
    pub severity: String,
    pub subject: String,
    pub finding: String,
    /// The statement or setting that mends it.
    pub remedy: String,
}

/// A look at one kind of thing, by the name that people are told.
pub type Look = (&'static str, &'static str);

/// All looks that the database itself can take.
pub const LOOKS: [Look; 7] = [
    ("server", include_str!("../../sql/queries/doctor/server.sql")),
    ("backends", include_str!("../../sql/queries/doctor/backends.sql")),
    ("sources and references", include_str!("../../sql/queries/doctor/declared.sql")),
    ("triggers", include_str!("../../sql/queries/doctor/triggers.sql")),
    ("tables", include_str!("../../sql/queries/doctor/tables.sql")),
    ("queue", include_str!("../../sql/queries/doctor/queue.sql")),
    ("cascades", include_str!("../../sql/queries/doctor/cascades.sql")),
];

/// What one look finds.
pub fn look(statement: &str) -> Result<Vec<Finding>> {
    spi::read(statement, &[], |row| {
        Ok(Finding {
            severity: row.required("severity")?,
            subject: row.required("subject")?,
            finding: row.required("finding")?,
            remedy: row.required("remedy")?,
        })
    })
}
