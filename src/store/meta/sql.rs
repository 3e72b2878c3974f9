//! Every statement, once. Both SQLite and Postgres accept `$1` and `returning`.
//!
//! A test prepares each of [`ALL`] against a migrated database, which replaces checking at compile time.

macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $text;)*

        /// All of them, for the test that prepares each.
        pub const ALL: &[(&str, &str)] = &[$((stringify!($name), $name)),*];
    };
}

statements! {
    /// Readiness.
    PING = "select 1";

    /// One artifact without its header.
    ARTIFACT = "select header_digest, length(header), schema_version, round_index, parent_hash, config_hash, \
         tensor_count, size, received_at, verified_at, verified_how from artifacts where content_hash = $1";
    /// The header as it was received.
    ARTIFACT_HEADER = "select header from artifacts where content_hash = $1";
    /// What tells two headers apart.
    ARTIFACT_HEADER_DIGEST = "select header_digest from artifacts where content_hash = $1";
    /// The files of an artifact with their blobs.
    ARTIFACT_FILES = "select f.name, f.digest, b.blob_key, b.size, b.stamp, b.damaged_at from artifact_files f \
        join blobs b on b.digest = f.digest where f.content_hash = $1 order by f.position";
    /// The groups of an artifact.
    ARTIFACT_GROUPS = "select name, group_hash, size, tensor_count from artifact_groups where content_hash = $1 \
        order by position";
    /// Artifacts that hold a group, for a reader who knows only the group's hash.
    GROUP_HOLDERS = "select content_hash, name from artifact_groups where group_hash = $1 order by content_hash limit 8";
    /// One link of a chain.
    LINK = "select round_index, parent_hash from artifacts where content_hash = $1";
    /// Artifacts that descend from one directly.
    CHILDREN = "select content_hash, round_index, parent_hash from artifacts where parent_hash = $1 \
        order by content_hash limit $2";
    /// A new artifact, just verified.
    INSERT_ARTIFACT = "insert into artifacts (content_hash, header, header_digest, schema_version, \
        round_index, parent_hash, config_hash, tensor_count, size, received_at, verified_at, verified_how) \
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10, 'upload')";
    /// The same, with the header that the upload session holds already.
    INSERT_ARTIFACT_OF_UPLOAD = "insert into artifacts (content_hash, header, header_digest, schema_version, \
        round_index, parent_hash, config_hash, tensor_count, size, received_at, verified_at, verified_how) \
        select $1, header, $3, $4, $5, $6, $7, $8, $9, $10, $10, 'upload' from uploads where id = $2";
    /// One of its files.
    INSERT_ARTIFACT_FILE = "insert into artifact_files (content_hash, position, name, digest) values ($1, $2, $3, $4)";
    /// One of its groups.
    INSERT_ARTIFACT_GROUP = "insert into artifact_groups (content_hash, position, name, group_hash, size, tensor_count) \
        values ($1, $2, $3, $4, $5, $6)";
    /// When and how it was last verified.
    SET_VERIFIED = "update artifacts set verified_at = $2, verified_how = $3 where content_hash = $1";

    /// A blob by its digest.
    BLOB = "select blob_key, size, stamp, damaged_at from blobs where digest = $1";
    /// A new blob.
    INSERT_BLOB = "insert into blobs (digest, blob_key, size, stamp) values ($1, $2, $3, $4)";
    /// Puts fresh bytes in the place of damaged ones.
    REPLACE_BLOB = "update blobs set blob_key = $2, size = $3, stamp = $4, damaged_at = null where digest = $1";
    /// What the file of a blob looks like while its bytes are right.
    SET_STAMP = "update blobs set stamp = $3, damaged_at = null where digest = $1 and blob_key = $2";
    /// Its bytes are wrong.
    SET_DAMAGED = "update blobs set damaged_at = $3 where digest = $1 and blob_key = $2 and damaged_at is null";
    /// Whether anything refers to a key.
    KEY_IN_USE = "select 1 from blobs where blob_key = $1 union all select 1 from upload_files where blob_key = $1 limit 1";

    /// A new session.
    INSERT_UPLOAD = "insert into uploads (id, content_hash, header, header_digest, weight_files, state, created_at, \
        expires_at) values ($1, $2, $3, $4, $5, 'open', $6, $7)";
    /// One of the files that it expects.
    INSERT_UPLOAD_FILE = "insert into upload_files (upload_id, position, stored, writer) values ($1, $2, 0, 0)";
    /// A session without its header, which may be large.
    UPLOAD = "select content_hash, header_digest, weight_files, state, problem, created_at, expires_at from uploads \
        where id = $1";
    /// What a session is loaded from.
    UPLOAD_HEADER = "select header, walks from uploads where id = $1";
    /// The files of a session.
    UPLOAD_FILES = "select position, blob_key, stored, length, digest_state, writer from upload_files \
        where upload_id = $1 order by position";
    /// A new writer of a file; the older one can save no more.
    CLAIM_UPLOAD_FILE = "insert into upload_files (upload_id, position, stored, writer) values ($1, $2, 0, 1) \
        on conflict (upload_id, position) do update set writer = upload_files.writer + 1 returning writer";
    /// How far a file has come; only its newest writer may say so.
    SAVE_UPLOAD_FILE = "update upload_files set blob_key = $4, stored = $5, length = $6, digest_state = $7 \
        where upload_id = $1 and position = $2 and writer = $3";
    /// How far the digests that span files have come.
    SAVE_UPLOAD_WALKS = "update uploads set walks = $2, expires_at = $3 where id = $1 and state = 'open'";
    /// Ends a session.
    CLOSE_UPLOAD = "update uploads set state = $2, problem = $3, walks = null where id = $1 and state = 'open'";
    /// Forgets what a session had stored, after it has ended.
    CLEAR_UPLOAD_FILES = "update upload_files set blob_key = null, stored = 0, digest_state = null where upload_id = $1";
    /// Open sessions whose time is over, and ended ones that nobody needs to read any more.
    EXPIRED_UPLOADS = "select id from uploads where expires_at < $1 order by expires_at limit 100";
    /// Where a session has put its bytes.
    UPLOAD_KEYS = "select blob_key from upload_files where upload_id = $1 and blob_key is not null";
    /// Forgets a session.
    DELETE_UPLOAD = "delete from uploads where id = $1";

    /// A record of what must never be swallowed.
    INSERT_AUDIT = "insert into audit_records (at, code, subject, detail) values ($1, $2, $3, $4)";
}
