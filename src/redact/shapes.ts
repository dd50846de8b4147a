/** Masks secrets that can be recognized by their format, wherever they come from. Pure. */

export const mask = "*****";

interface Shape {
  /** The pattern is applied only to text that contains one of these, because that check is much faster. */
  readonly marks: readonly string[];
  readonly pattern: RegExp;
  readonly replacement?: string | ((...match: string[]) => string);
}

/** Prefixes and lengths are those that the issuers document for secret scanning; the minimum lengths are lenient. */
const shapes: readonly Shape[] = [
  {
    marks: ["PRIVATE KEY"],
    pattern: /-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z0-9 ]+-----|$)/g,
    replacement: maskLines,
  },
  {
    // Everything before the last @ of a URL's authority: a password may contain an @ itself.
    marks: ["://"],
    pattern: /(\bssh|\bgit\+ssh)?:\/\/([^\s/"'\\<>]{1,2000})@/gi,
    replacement: (whole = "", ssh?: string, login = "") =>
      // The user of an SSH address is not secret.
      ssh !== undefined && !login.includes(":") ? whole : `${ssh ?? ""}://${mask}@`,
  },
  {
    marks: ["?", "&", ";"],
    pattern:
      /([?&;](?:amp;)?(?:access_?token|auth_?token|private_?token|id_?token|refresh_?token|job_?token|token|api_?key|client_?secret|secret|password|passwd|pwd|signature|sig|x-amz-signature|x-amz-credential|x-amz-security-token|x-goog-signature|x-goog-credential)=)[^\s&;#"'<>\\]+/gi,
    replacement: `$1${mask}`,
  },
  {
    marks: ["uthorization", "UTHORIZATION"],
    pattern: /(authorization["']?\s*[:=]\s*["']?(?:basic|bearer|token)\s+)[\w+/=.~-]{6,}/gi,
    replacement: `$1${mask}`,
  },
  { marks: ["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], pattern: /\bgh[pousr]_[A-Za-z0-9]{16,}/g },
  { marks: ["github_pat_"], pattern: /\bgithub_pat_\w{20,}/g },
  { marks: ["gl"], pattern: /\bgl(?:pat|dt|rt|rtr|cbt|ptt|ft|imt|agent|oas|soat|ffct|wt)-[\w.-]{16,}/g }, // GitLab
  { marks: ["AKIA", "ASIA"], pattern: /\bA[KS]IA[A-Z2-7]{16}\b/g }, // AWS
  { marks: ["eyJ"], pattern: /[\w.-]{21,}/g, replacement: maskWebTokens },
  { marks: ["xox"], pattern: /\bxox[a-z]-[\w-]{10,}/g }, // Slack
  { marks: ["xapp-"], pattern: /\bxapp-\d-[\w-]{10,}/g },
  {
    marks: ["hooks.slack.com"],
    pattern: /(hooks\.slack\.com\/(?:services|workflows)\/)[\w/]+/g,
    replacement: `$1${mask}`,
  },
  { marks: ["AIza"], pattern: /\bAIza[\w-]{35}/g }, // Google
  { marks: ["ya29."], pattern: /\bya29\.[\w-]{20,}/g },
  { marks: ["k_live_", "k_test_"], pattern: /\b[rs]k_(?:live|test)_\w{16,}/g }, // Stripe
  { marks: ["npm_"], pattern: /\bnpm_\w{36}/g },
  { marks: ["pypi-AgE"], pattern: /\bpypi-AgE[\w-]{50,}/g },
  { marks: ["hvs.", "hvb.", "hvr."], pattern: /\bhv[sbr]\.[\w-]{20,}/g }, // Vault
  { marks: ["dckr_pat_"], pattern: /\bdckr_pat_[\w-]{20,}/g }, // Docker Hub
  { marks: ["dop_v1_"], pattern: /\bdop_v1_[a-f0-9]{40,}/g }, // DigitalOcean
  { marks: ["SG."], pattern: /\bSG\.[\w-]{16,}\.[\w-]{16,}/g }, // SendGrid
  { marks: ["AGE-SECRET-KEY-"], pattern: /\bAGE-SECRET-KEY-(?:PQ-)?1[A-Z0-9]{20,}/g },
  { marks: ["AccountKey="], pattern: /(\bAccountKey=)[\w+/=]{40,}/g, replacement: `$1${mask}` }, // Azure storage
];

export function maskShapes(text: string): string {
  return shapes.reduce(
    (shown, { marks, pattern, replacement = mask }) =>
      marks.some((mark) => shown.includes(mark)) ? shown.replace(pattern, replacement as string) : shown,
    text,
  );
}

/**
 * Masks JSON Web Tokens in a run of their characters: `eyJ…`, eight characters or more, a dot, eight or more
 * characters, another dot, the signature. A single pattern would take time that grows with the square of the length of
 * a run with many possible starts.
 */
function maskWebTokens(run = ""): string {
  const parts = run.split(".");
  const shown: string[] = [];
  for (let at = 0; at < parts.length; at++) {
    const [header = "", payload = "", signature] = parts.slice(at, at + 3);
    const begins = header.search(/(?<!\w)eyJ[\w-]{8}/);
    if (begins === -1 || payload.length < 8 || signature === undefined) {
      shown.push(header);
      continue;
    }
    shown.push(header.slice(0, begins) + mask);
    at += 2;
  }
  return shown.join(".");
}

/** Masks each line but keeps the number of lines, so that texts can still be compared line by line. */
export function maskLines(text: string): string {
  return text
    .split("\n")
    .map((line) => (line.trim() === "" ? line : /^\s*/.exec(line)?.[0] + mask))
    .join("\n");
}
