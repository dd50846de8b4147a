/** Translates git's error messages for the user who has to act on them. */
import { SourceError } from "../errors.ts";
import type { SourceProblem } from "../errors.ts";
import { GitFailure } from "./git.ts";
import type { Remote } from "./remote.ts";

interface Meaning {
  readonly problem: SourceProblem;
  readonly says: RegExp;
  /** `undefined`: git's own message is used. */
  readonly text?: string;
  /** Put before git's own message. */
  readonly prefix?: string;
  /** The message of kluctl's git library for the same error. */
  readonly inKluctl?: string;
}

/** Set as `code` by Node, or printed by git. */
const diskCodes = new Set(["ENOSPC", "EDQUOT", "EROFS", "EACCES", "EPERM", "ENOTDIR", "EMFILE", "ENFILE"]);

/** The remote violates git's protocol: a fault of the server, a proxy in between, or a banner of ssh. */
const protocolError: Meaning = {
  problem: "unreachable",
  says: /protocol error|bad line length|invalid server response|expected (?:flush|ACK\/NAK|shallow\/unshallow|'[a-z-]+')|unexpected (?:flush packet|acknowledgment line)|error (?:reading section header|processing (?:acks|wanted refs|shallow info))/i,
  prefix: "git protocol error: ",
};

// The first match counts. Covers git 2.39 to 2.51, curl and OpenSSH; LC_ALL makes the messages English.
const meanings: readonly Meaning[] = [
  { problem: "disk", says: /No space left on device|Disk quota exceeded|Read-only file system|Too many open files/i },
  {
    problem: "disk",
    says: /unable to (?:create temporary|write)|write error|failed to write|could not create (?:work tree|leading directories)|cannot mkdir/i,
  },
  { problem: "refused", says: /transport '[^']*' not allowed|strange (?:hostname|port|pathname) .* blocked/i },
  {
    problem: "refused",
    says: /requested URL returned error: 30[1278]/i,
    text: "the server redirects to another URL: use that URL",
  },
  {
    problem: "unauthorized",
    says: /REMOTE HOST IDENTIFICATION HAS CHANGED/,
    text: "the host's key differs from the one in known_hosts of the secret: find out why before you replace it",
  },
  {
    problem: "unauthorized",
    says: /Host key verification failed/i,
    text: "the host's key is not known: put it into known_hosts of the secret",
  },
  {
    problem: "unauthorized",
    says: /error in libcrypto|invalid format|Load key .*/i,
    text: "the SSH key (identity) cannot be read",
  },
  {
    problem: "unauthorized",
    says: /Authentication failed|could not read (?:Username|Password)|terminal prompts disabled|requested URL returned error: 401|Permission denied \(|HTTP Basic: Access denied/i,
    text: "authentication failed",
    inKluctl: "authentication required",
  },
  {
    problem: "unauthorized",
    says: /requested URL returned error: 403|access denied|not (?:allowed|authorized) to/i,
    text: "access is denied",
    inKluctl: "authorization failed",
  },
  {
    problem: "not-found",
    says: /repository '[^']*' not found|Repository not found|repository does not exist|does not appear to be a git repository|requested URL returned error: (?:404|410)|could not be found or you don't have permission/i,
    text: "no such repository, or this login has no access to it",
    inKluctl: "repository not found",
  },
  {
    problem: "not-found",
    says: /not valid: is this a git repository/i,
    text: "not a git repository",
  },
  { problem: "unreachable", says: /SSL|certificate|TLS/i },
  { problem: "unreachable", says: /requested URL returned error: (?:5\d\d|429|408)/i },
  { problem: "unreachable", says: /Operation too slow|timed? ?out/i, text: "the server does not respond in time" },
  {
    problem: "unreachable",
    says: /Could not resolve|Failed to connect|Couldn't connect|Connection (?:refused|reset|closed)|No route to host|unreachable/i,
  },
  protocolError, // last, because other errors can cause it
];

function meaningOf({ stderr }: GitFailure): Meaning | undefined {
  return meanings.find(({ says }) => says.test(stderr));
}

/** Translates an error of git or the disk to a SourceError; other errors are returned unchanged. */
export function explain(error: unknown, remote: Remote): unknown {
  if (error instanceof SourceError)
    return new SourceError(error.problem, about(remote, error.message), {
      cause: error.cause,
      inKluctlsWords: error.inKluctlsWords,
    });
  if (isDiskError(error))
    return new SourceError(
      "disk",
      `cannot store ${remote.label}: ${error.code} (${error.syscall ?? "cache directory"})`,
    );
  if (!(error instanceof GitFailure)) return error;
  const said = complaint(error.stderr, remote);
  if (error.cause instanceof Error)
    return new SourceError("unreachable", about(remote, "the server does not respond in time"));
  const meaning = meaningOf(error);
  const text = meaning?.text ?? `${meaning?.prefix ?? ""}${said === "" ? "git ended without a message" : said}`;
  const problem = meaning?.problem ?? "unreachable";
  if (problem === "disk") return new SourceError(problem, `cannot store ${remote.label}: ${text}`);
  return new SourceError(
    problem,
    about(remote, problem === "unauthorized" || problem === "not-found" ? `${text} (${who(remote)})` : text),
    { inKluctlsWords: meaning?.inKluctl && `failed to clone git source: ${meaning.inKluctl}` },
  );
}

/** Whether git reported a protocol error; a fetch from scratch, without negotiation, may still work. */
export function isProtocolError(error: unknown): boolean {
  return error instanceof GitFailure && !(error.cause instanceof Error) && meaningOf(error) === protocolError;
}

/**
 * Whether the error is damage to a mirror that cloning it again would repair, as opposed to a problem of the remote.
 */
export function isDamaged(error: unknown): boolean {
  if (!(error instanceof GitFailure) || error.cause instanceof Error) return false;
  return /object file .* is empty|is corrupt|corrupted|packfile .* (?:cannot|is|does|index)|bad object|bad tree|missing (?:blob|tree|commit|object)|unable to (?:read|parse|find|resolve)|inflate|not a git repository|does not (?:exist|appear)|did not receive expected object|did not send all necessary|index file|reference broken|bad (?:ref|signature)|File exists|cannot lock ref|dubious ownership|not our ref|is not a tree|garbage|not a valid/i.test(
    error.stderr,
  );
}

function isDiskError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && "code" in error && diskCodes.has(String(error.code));
}

function about({ label }: Remote, text: string): string {
  return `cannot read ${label}: ${text}`;
}

function who({ login, hint }: Remote): string {
  if (login === undefined) return hint ?? "no login: no entry of spec.credentials.git matches";
  // If there is no password, the username may be a token, so it is not shown.
  const shown = login.password === "" || login.password === "x-oauth-basic" ? "" : `, user "${login.username}"`;
  if (login.secretName === undefined) return "login from the URL";
  return login.secretName === "" ? `the server's own login${shown}` : `secret ${login.secretName}${shown}`;
}

/** Returns the lines of git's output that describe the error, without secrets and control characters. */
function complaint(stderr: string, remote: Remote): string {
  const lines = stderr.split(/[\r\n]+/).map((text) => text.trim());
  const telling = lines.filter((text) => /^(?:fatal|error|ssh|remote: ?(?:error|fatal)):?/i.test(text));
  const text = (telling.length > 0 ? telling : lines.filter((line) => line !== "").slice(-1)).slice(0, 3).join("; ");
  return scrub(text, remote);
}

function scrub(text: string, { login }: Remote): string {
  let clean = text.replace(/\/\/[^/\s]*@/g, "//").replace(/[\p{Cc}\u2028\u2029]+/gu, " ");
  for (const secret of [login?.password, login?.password && encodeURIComponent(login.password)]) {
    if (secret) clean = clean.replaceAll(secret, "***");
  }
  return clean.slice(0, 500);
}

/** Translates failures to SourceErrors; a caller that was cancelled gets its own reason back. */
export async function explained<T>(remote: Remote, signal: AbortSignal | undefined, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    signal?.throwIfAborted();
    throw explain(error, remote);
  }
}
