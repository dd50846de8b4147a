/** Secrets that give themselves away by their form, wherever they come from. Pure. */

export const mask = "*****";

/** The prefixes and lengths are those that the issuers document for secret scanning. */
const tokens = [
  /\bgh[pousr]_[A-Za-z0-9]{16,}/, // GitHub
  /\bgithub_pat_\w{20,}/,
  /\bgl(?:pat|dt|rt|rtr|cbt|ptt|ft|imt|agent|oas|soat|ffct|wt)-[\w.-]{16,}/, // GitLab
  /\b(?:AKIA|ASIA)[A-Z2-7]{16}\b/, // AWS access keys
  /\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*/, // JSON Web Tokens
  /\bxox[a-z]-[\w-]{10,}/, // Slack
  /\bxapp-\d-[\w-]{10,}/,
  /(?<=hooks\.slack\.com\/services\/)[\w/]+/,
  /\bAIza[\w-]{35}/, // Google
  /\bya29\.[\w-]{20,}/,
  /\b[rs]k_(?:live|test)_\w{16,}/, // Stripe
  /\bnpm_\w{36}/,
  /\bpypi-AgE[\w-]{50,}/,
  /\bhv[sbr]\.[\w-]{20,}/, // HashiCorp Vault
  /\bdckr_pat_[\w-]{20,}/, // Docker Hub
  /\bdop_v1_[a-f0-9]{40,}/, // DigitalOcean
  /\bSG\.[\w-]{16,}\.[\w-]{16,}/, // SendGrid
  /\bAGE-SECRET-KEY-1[A-Z0-9]{20,}/,
  /(?<=\bAccountKey=)[\w+/=]{40,}/, // Azure storage
  /(?<=\bauthorization["']?\s*[:=]\s*["']?(?:basic|bearer|token)\s+)[\w+/=.~-]{6,}/, // HTTP
];
const token = new RegExp(tokens.map(({ source }) => source).join("|"), "gi");

const privateKey = /-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z0-9 ]+-----|$)/g;

// Everything before the last @ of a URL's authority: a password may hold an @ itself.
const userInfo = /(\bssh|\bgit\+ssh)?:\/\/([^\s/"'\\<>]{1,2000})@/gi;

const parameter =
  /([?&;](?:amp;)?(?:access_?token|auth_?token|private_?token|id_?token|refresh_?token|job_?token|token|api_?key|client_?secret|secret|password|passwd|pwd|signature|sig|x-amz-signature|x-amz-credential|x-amz-security-token|x-goog-signature|x-goog-credential)=)[^\s&;#"'<>\\]+/gi;

export function maskShapes(text: string): string {
  return text
    .replace(privateKey, maskLines)
    .replace(userInfo, (whole, ssh: string | undefined, login: string) =>
      // The user of an SSH address is no secret.
      ssh !== undefined && !login.includes(":") ? whole : `${ssh ?? ""}://${mask}@`,
    )
    .replace(parameter, `$1${mask}`)
    .replace(token, mask);
}

/** As many lines as before: lines keep their numbers, so that texts can still be compared line by line. */
export function maskLines(text: string): string {
  return text
    .split("\n")
    .map((line) => (line.trim() === "" ? line : /^\s*/.exec(line)?.[0] + mask))
    .join("\n");
}
