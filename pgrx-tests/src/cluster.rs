//! Throw-away PostgreSQL clusters: a copied data directory, a private socket, no TCP port, gone on drop.

use std::env;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use postgres::{Client, Config, NoTls};

use crate::account::Account;
use crate::database::Database;
use crate::process::{self, Plan, Process};
use crate::wait;

/// The database that every cluster has, and that a preloaded worker serves.
pub const SHOP: &str = "shop";

/// Settings of a cluster that lives for seconds. Nothing in here changes what the extension does.
const THROW_AWAY: &str = "
listen_addresses = ''
fsync = off
shared_buffers = '128MB'
max_connections = 60
max_prepared_transactions = 10
log_line_prefix = '%m [%p] %b %d '
log_statement = 'none'
unix_socket_directories = '{directory}'
";

/// Settings of a cluster that loads the extension with the server. Its scenarios delete whole tables.
pub const PRELOADED: &str = "
shared_preload_libraries = 'storage_reaper'
storage_reaper.database = 'shop'
storage_reaper.credentials_file = '{directory}/credentials'
storage_reaper.breaker_objects = -1
";

/// A running server.
pub struct Cluster {
    server: Option<Process>,
    directory: PathBuf,
    log: PathBuf,
    installation: Installation,
    environment: Vec<(String, String)>,
    keep: bool,
}

/// Where a cluster's data directory comes from.
enum Origin<'a> {
    Template,
    Initdb,
    /// A base backup of this one, which it goes on following.
    Primary(&'a Cluster),
}

/// The server programs under test.
#[derive(Clone)]
pub struct Installation {
    bin: PathBuf,
    version: String,
}

impl Installation {
    /// The one that PG_CONFIG names; without it, the pg_config of PG_MAJOR, 15 if that is missing too.
    pub fn under_test() -> Result<Installation> {
        let major = env::var("PG_MAJOR").unwrap_or_else(|_| "15".to_owned());
        let of_major = format!("PG{major}_CONFIG");
        let pg_config = env::var("PG_CONFIG").or_else(|_| env::var(&of_major)).with_context(|| {
            format!("neither PG_CONFIG nor {of_major} is set: run through make, or `. .ci/env` first")
        })?;
        let ask = |what: &str| process::run(Command::new(&pg_config).arg(what));
        Ok(Installation { bin: PathBuf::from(ask("--bindir")?.trim()), version: ask("--version")?.trim().to_owned() })
    }

    /// The path of one of its programs.
    pub fn program(&self, name: &str) -> PathBuf {
        self.bin.join(name)
    }

    /// What pg_config says, such as `PostgreSQL 15.20 (Debian …)`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The data directory that clusters are copied from: initialised once for each version.
    fn template(&self, account: Account) -> Result<PathBuf> {
        let tools = PathBuf::from(env::var("REAPER_TOOLS").context("REAPER_TOOLS is not set: `. .ci/env` first")?);
        let name: String = self.version.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let template = tools.join(format!("template-{name}"));
        let _lock = process::lock(&template.with_extension("lock"))?;
        if !template.join("ready").exists() {
            let _ = fs::remove_dir_all(&template);
            fs::create_dir(&template).with_context(|| format!("cannot create {}", template.display()))?;
            account.own(&template)?;
            self.initialise(account, &template.join("data"))?;
            fs::write(template.join("ready"), "")?;
        }
        Ok(template.join("data"))
    }

    fn initialise(&self, account: Account, data: &Path) -> Result<()> {
        process::run(
            account
                .command(self.program("initdb"))
                .args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C.UTF-8", "-D"])
                .arg(data),
        )?;
        let create = format!("echo 'CREATE DATABASE {SHOP}' | \"$0\" --single -D \"$1\" postgres");
        process::run(account.command("/bin/sh").args(["-c", &create]).arg(self.program("postgres")).arg(data))?;
        Ok(())
    }
}

impl Cluster {
    /// Starts a cluster with these extra lines in postgresql.conf, and waits until it accepts connections.
    /// `{directory}` in them stands for the cluster's own directory.
    pub fn start(conf: &str) -> Result<Cluster> {
        Cluster::begin(conf, Origin::Template, false)
    }

    /// The same on a data directory of its own: all others are copies, and have the same system identifier.
    pub fn start_elsewhere(conf: &str) -> Result<Cluster> {
        Cluster::begin(conf, Origin::Initdb, false)
    }

    /// The same as `start`, but it stays when we end.
    pub fn start_and_keep(conf: &str) -> Result<Cluster> {
        Cluster::begin(conf, Origin::Template, true)
    }

    /// A standby of this cluster, with these extra lines in its postgresql.conf.
    pub fn standby(&self, conf: &str) -> Result<Cluster> {
        Cluster::begin(conf, Origin::Primary(self), false)
    }

    fn begin(conf: &str, origin: Origin<'_>, keep: bool) -> Result<Cluster> {
        let account = Account::of_servers()?;
        let installation = Installation::under_test()?;
        let directory = tempfile::Builder::new().prefix("storage-reaper-").tempdir()?.keep();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755))?;
        account.own(&directory)?;
        let log = log_file(&directory);
        let mut cluster = Cluster { server: None, directory, log, installation, environment: Vec::new(), keep };
        match origin {
            Origin::Initdb => cluster.installation.initialise(account, &cluster.data())?,
            Origin::Primary(primary) => {
                let backup = account.command(cluster.installation.program("pg_basebackup"));
                primary.back_up(backup, &cluster.data())?;
            }
            Origin::Template => {
                let template = cluster.installation.template(account)?;
                process::run(account.command("cp").arg("-a").arg(&template).arg(cluster.data()))?;
            }
        }
        let conf = format!("{THROW_AWAY}{conf}").replace("{directory}", &cluster.directory.display().to_string());
        cluster.append_conf(&conf)?;
        cluster.launch()?;
        Ok(cluster)
    }

    fn back_up(&self, mut program: Command, to: &Path) -> Result<()> {
        program.args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync", "--username=postgres", "--host"]);
        process::run(program.arg(&self.directory).arg("--pgdata").arg(to)).map(drop)
    }

    /// Starts the server on the data directory that is there.
    fn launch(&mut self) -> Result<()> {
        let program = self.installation.program("postgres").display().to_string();
        let data = self.data().display().to_string();
        let environment: Vec<_> =
            self.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.server = Some(Process::start(&Plan {
            command: &[&program, "-D", &data],
            environment: &environment,
            account: Some(Account::of_servers()?),
            stop: "QUIT",
            log: &self.log,
            scrap: Some(&self.directory),
            keep: self.keep,
        })?);
        let accepting =
            wait::until(wait::PATIENCE, "the cluster accepts connections", || Ok(self.connect("postgres").ok()));
        accepting.map(drop).with_context(|| format!("server log: {}", self.log().unwrap_or_default()))
    }

    /// Ends the server at once, as a power failure would, and starts it again.
    pub fn crash_and_restart(&mut self) -> Result<()> {
        self.server = None;
        self.launch()
    }

    /// The same, and from then on the server sees this in its environment.
    pub fn restart_with(&mut self, name: &str, value: &str) -> Result<()> {
        self.environment.push((name.to_owned(), value.to_owned()));
        self.crash_and_restart()
    }

    /// Adds lines to the configuration and has the server read them.
    pub fn reconfigure(&self, conf: &str) -> Result<()> {
        self.append_conf(conf)?;
        self.connect("postgres")?.batch_execute("SELECT pg_reload_conf()")?;
        Ok(())
    }

    fn append_conf(&self, conf: &str) -> Result<()> {
        let path = self.data().join("postgresql.conf");
        let mut file = fs::OpenOptions::new().append(true).open(&path)?;
        writeln!(file, "{conf}").with_context(|| format!("cannot write {}", path.display()))
    }

    /// The cluster's own directory, with its socket and everything else.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The server programs that it runs.
    pub fn installation(&self) -> &Installation {
        &self.installation
    }

    /// The postmaster's process id.
    pub fn pid(&self) -> Option<i32> {
        self.server.as_ref().map(Process::pid)
    }

    /// All that the server has logged since it was made.
    pub fn log(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(&self.log)?).into_owned())
    }

    /// A connection as user postgres.
    pub fn connect(&self, database: &str) -> Result<Client> {
        self.connect_as(database, "postgres")
    }

    /// A connection as any user; the cluster trusts its socket.
    pub fn connect_as(&self, database: &str, user: &str) -> Result<Client> {
        let mut config = Config::new();
        config.host_path(&self.directory).user(user).dbname(database).application_name("scenario");
        config.connect(NoTls).with_context(|| format!("cannot connect to {database} as {user}"))
    }

    /// A database of this cluster.
    pub fn database(&self, name: &str) -> Result<Database> {
        Ok(Database::over(self.connect(name)?))
    }

    /// Runs one of the client programs (pg_dump, psql …) against this cluster as user postgres.
    pub fn client_program(&self, name: &str) -> Command {
        let mut command = Command::new(self.installation.program(name));
        command.env("PGHOST", &self.directory).env("PGUSER", "postgres").env_remove("PGPORT");
        command
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.server = None;
        if !self.keep {
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

/// The log goes with its cluster, unless REAPER_LOGS names a directory (writable by the servers) to keep logs in.
fn log_file(directory: &Path) -> PathBuf {
    match (env::var_os("REAPER_LOGS"), directory.file_name()) {
        (Some(logs), Some(name)) => PathBuf::from(logs).join(name).with_extension("log"),
        _ => directory.join("server.log"),
    }
}
