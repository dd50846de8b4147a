/** The reference of the configuration, made from its schema. */
import { format, resolveConfig } from "prettier";
import { configFields, type Field, forgeFields } from "../src/config/fields.ts";
import { isFixed } from "../src/config/fixed.ts";

const sections: Readonly<Record<string, string>> = {
  webhooks: "Receiving webhooks",
  admin: "Health and metrics",
  ui: "Page",
  log: "Log",
  audit: "Audit log",
  redis: "Redis",
  kubernetes: "Kubernetes",
  kluctl: "kluctl",
  sweep: "Sweep",
  lease: "Lease",
  results: "Results",
  preview: "Pull requests",
  prune: "Pruning",
  git: "Git",
  shutdown: "Shutdown",
};

/** The page as it is in docs/configuration.md. */
export async function configurationPage(): Promise<string> {
  const fields = configFields();
  const general = fields.filter(({ keys }) => keys.length === 1);
  const parts = Object.entries(sections).map(([key, title]) => {
    const own = fields.filter(({ keys }) => keys.length > 1 && keys[0] === key);
    return `### ${title}\n\n${table(own)}`;
  });
  const page = [introduction, reloading, "## Keys", `### General\n\n${table(general)}`, ...parts, forges()].join(
    "\n\n",
  );
  return format(page, { ...(await resolveConfig(import.meta.filename)), parser: "markdown" });
}

const reloading = `## Changes while the server runs

The file and the files with secrets are read again every few seconds, also where Kubernetes mounts them (not by \`subPath\`: of that
a pod sees no change). What has changed is in effect at once, without a restart: forges come, go and change their secrets and logins,
the next job takes another kluctl or another limit, the page another token. What is under way ends as it began.

The tables say what is read at the start only: addresses and ports, where Redis and the cluster are, and what servers have to agree
upon. So are variables and options, and the certificate authorities in \`NODE_EXTRA_CA_CERTS\`: a process sees no change of those.
Where such a key has changed, the log, an Event and \`towline_config_restart_needed\` say so, and the rest is in effect nevertheless.

All of a change is taken over, or nothing of it. What cannot be used (a key that is not known, a secret that is too short, a kluctl
that does not run, an audit file that cannot be written) is told once in the log, as an Event and by
\`towline_config_reload_success\`; what was good stays in effect. The Events are on the Lease of the servers:
\`kubectl -n kluctl-system get events --field-selector involvedObject.name=5ab5d0f9.kluctl.io\`.

Secrets can be exchanged without a gap:

- **of webhooks**: the old one is refused as soon as it is gone from the files. Have both for a while, one per line;
- **the password of Redis**: change it at Redis and in the file, in either order. Connections that are there stay; whoever is refused
  with one of the two passwords tries the other;
- **logins of deployments** are read from the cluster for each look.`;

const introduction = `<!-- Written by \`npm run docs\` from src/config/schema.ts. Change it there. -->

# Configuration

Towline reads three places. Options of the command line come before variables, and variables before the file:

\`\`\`sh
towline serve --config towline.yaml --log-level debug
\`\`\`

\`\`\`yaml
# towline.yaml
forges:
  - id: github
    kind: github
    webhookSecretFiles: [/run/secrets/github-webhook]
    tokenFile: /run/secrets/github-token
  - id: work
    kind: gitlab
    apiUrl: https://gitlab.example.com/api/v4
    webhookSecretFiles: [/run/secrets/gitlab-webhook]
redis:
  url: redis://redis:6379
\`\`\`

The file is named by \`--config\` or \`TOWLINE_CONFIG\`. Where there is one git host, variables alone will do:

\`\`\`sh
TOWLINE_GITHUB_WEBHOOK_SECRET_FILE=/run/secrets/github-webhook towline serve
\`\`\`

- Every key is a variable as well, and an option unless it is a secret: \`webhooks.port\` is \`TOWLINE_WEBHOOKS_PORT\` and \`--webhooks-port\`. Lists are separated by commas. An empty variable counts as not set.
- Every secret can be read from a file. Its end of line does not belong to it.
- Durations are written as in Go: \`30s\`, \`5m\`, \`1h30m\`. Sizes are written as \`512KiB\` or \`10MiB\`.
- A key or variable that is not known is an error, so that a slip of the pen does not go unnoticed. All problems are told at once.

\`towline config print\` shows the effective configuration and where each value comes from, \`towline config validate\` says everything that is wrong, and \`towline config schema\` prints a JSON schema for editors. Secrets are never shown.`;

function forges(): string {
  const fields = forgeFields("<KIND>").map((field) =>
    field.path === "id" || field.path === "kind" ? { ...field, variable: "" } : field,
  );
  return `### Forges

\`forges\` is a list of the git hosts whose webhooks are received. Without any, git is only polled. The variables, with \`GITHUB\`, \`GITLAB\` or \`GITEA\` for \`<KIND>\`, concern the forge whose \`id\` is \`github\`, \`gitlab\` or \`gitea\`; if the file has none of that id, they add one.

A forge needs a webhook secret: the server does not start without it, unless \`insecureAllowUnsigned\` says so.

${table(fields)}`;
}

function table(fields: readonly Field[]): string {
  const rows = fields.map((field) => {
    const { path, variable, description = "" } = field;
    return [`\`${path}\``, variable && `\`${variable}\``, defaultOf(field), takenOver(path), description]
      .map(cell)
      .join(" | ");
  });
  return [
    "| key | variable | default | a change | meaning |",
    "| --- | --- | --- | --- | --- |",
    ...rows.map((row) => `| ${row} |`),
  ].join("\n");
}

function takenOver(path: string): string {
  const fixed = isFixed(path);
  if (fixed === "login") return "its login at once, the rest after a restart";
  return fixed ? "after a restart" : "at once";
}

function defaultOf({ default: value, defaultText, path }: Field): string {
  if (defaultText !== undefined) return defaultText;
  if (path === "id" || path === "kind") return "required";
  if (value === undefined || (Array.isArray(value) && value.length === 0)) return "none";
  return `\`${String(value)}\``;
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|");
}
