/** `towline init`: writes an initial configuration and shows what to enter at the git host. */
import type { ForgeKind } from "../model.ts";
import { randomBytes } from "node:crypto";
import { accessSync, chmodSync, constants, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { Option } from "commander";
import { stringify } from "yaml";
import { loadConfig } from "../config.ts";
import { forgeKinds } from "../config/forge-schema.ts";
import { ConfigError } from "../errors.ts";
import type { MadeApp } from "../forge/github-manifest.ts";
import { clusterConfig } from "./cluster.ts";
import type { Define } from "./commands.ts";
import { readFile } from "./configuration.ts";
import { untilInterrupted } from "./interrupt.ts";
import { parseServerAddress } from "./server-address.ts";
import { table } from "./table.ts";
import { ensureWebhooks } from "./webhook-ensure.ts";

interface Flags {
  readonly forge?: ForgeKind;
  readonly url?: string;
  readonly apiUrl?: string;
  readonly context?: string;
  readonly file: string;
  readonly ensureWebhooks?: true;
  readonly repo?: readonly string[];
  readonly tokenFile?: string;
  readonly githubApp?: true;
  readonly organization?: string;
  readonly appPort: string;
}

const help = `
Writes a configuration file and a new webhook secret beside it, and prints what to enter at the git host. On a terminal it
asks for missing options; otherwise --forge and --url are required. Existing files are never overwritten.

By default it connects to nothing. With --ensure-webhooks it also creates the webhooks, like \`towline webhook ensure\`, which
can be run again later. With --github-app it creates a GitHub App instead: it prints the address of a page on this machine,
to be opened in a browser on this machine (from elsewhere: ssh -L PORT:127.0.0.1:PORT, with --app-port PORT), and waits for
GitHub's answer. The App's key and webhook secret are written beside the configuration.

Examples:
  towline init
  towline init --forge github --url https://towline.example.com
  towline init --forge gitea --url https://towline.example.com --api-url https://gitea.example.com/api/v1 --file conf/towline.yaml
  towline init --forge gitlab --url https://towline.example.com --ensure-webhooks --repo org/shop --token-file admin.token
  towline init --forge github --url https://towline.example.com --github-app --organization example

Exit codes:
  0  The files are written and, with --ensure-webhooks, the webhooks exist
  1  A file exists or cannot be written, or a webhook could not be created: the output says why
  2  Invalid command line or answer`;

export const defineInit: Define = (command, { out, err, ask, stdin }, onCode) => {
  command
    .addOption(new Option("--forge <kind>", "Kind of git host; use gitea for Forgejo").choices(forgeKinds))
    .option("--url <url>", "Address of the server for git hosts: https://towline.example.com")
    .option("--api-url <url>", "API of a self-hosted git host; default: the public service")
    .option("--context <name>", "Kubeconfig context; default: the current one, or the cluster of the pod")
    .option("--file <path>", "File to write", "towline.yaml")
    .option("--ensure-webhooks", "Create the webhooks through the git host's API")
    .option("--repo <repos...>", "Repositories to create webhooks for; default: those that KluctlDeployments follow")
    .option("--token-file <file>", "File with a token that may administer webhooks; the token is not stored")
    .option("--github-app", "Create a GitHub App in the browser and write its key")
    .option("--organization <name>", "Organization that owns the App; default: your own account")
    .option("--app-port <port>", "Loopback port of the page that creates the App; 0: any free port", "0")
    .addHelpText("after", help)
    .action(async (flags: Flags) => {
      const { ensureWebhooks: isEnsured = false, tokenFile, repo = [] } = flags;
      if (isEnsured && tokenFile === undefined) {
        throw new ConfigError(
          "--ensure-webhooks needs a token that may administer webhooks; pass it with --token-file",
        );
      }
      const isApp = flags.githubApp === true;
      if (isApp && isEnsured) {
        throw new ConfigError("--github-app and --ensure-webhooks exclude each other: an App has its own webhook");
      }
      if (tokenFile !== undefined && tokenFile !== "-") readFile(tokenFile);
      checkPlaces([resolve(flags.file)], "remove it, or choose another file with --file"); // before asking any questions
      const answers = await askFor(isApp ? { ...flags, forge: flags.forge ?? "github" } : flags, ask, err);
      if (isApp && answers.forge !== "github") throw new ConfigError("--github-app requires --forge github");
      const places = placesOf(flags.file, answers.forge, isApp);
      const { file, secretFile } = places;
      const elsewhere = join(dirname(flags.file), answers.forge, basename(file));
      const secret = randomBytes(24).toString("hex");
      const example = { secret, app: isApp ? { id: "1", key: "-----BEGIN PRIVATE KEY-----" } : undefined };
      // Validate before creating anything, so that a failure leaves nothing behind.
      composeDocument(answers, places, example);
      checkPlaces(
        [places.secretFile, places.keyFile],
        `secrets are written beside the configuration. Choose another directory, such as --file ${elsewhere}, or remove the file if it is no longer used`,
      );
      mkdirSync(dirname(file), { recursive: true });
      accessSync(dirname(file), constants.W_OK);

      if (isApp) {
        const made = await untilInterrupted((signal) => makeApp(answers, flags, err, signal));
        if (made === undefined) {
          err("interrupted: nothing was created\n");
          return onCode(1);
        }
        const ownSecret = made.webhook_secret ?? undefined;
        writeAll(answers, places, { secret: ownSecret ?? secret, app: { id: String(made.id), key: made.pem } });
        out(describeApp(made, places, ownSecret === undefined && answers.url.href));
        out(describeNext(answers, file, true));
        return onCode(0);
      }
      writeAll(answers, places, { secret });
      out(`Written: ${file}, and a new secret in ${secretFile}\n\n`);
      if (!isEnsured) out(describeForm(answers, secretFile));
      const code = isEnsured
        ? await ensureWebhooks(
            repo,
            { url: answers.url.href, tokenFile, output: "text" },
            clusterConfig({}, { config: file }),
            { stdin, out, err },
          )
        : 0;
      out(describeNext(answers, file));
      onCode(code);
    });
};

/** Paths of the files to write. */
interface Places {
  readonly file: string;
  readonly secretFile: string;
  /** File for the private key of a GitHub App. */
  readonly keyFile?: string | undefined;
}

interface Contents {
  readonly secret: string;
  readonly app?: { readonly id: string; readonly key: string } | undefined;
}

function placesOf(given: string, forge: ForgeKind, isApp: boolean): Places {
  const file = resolve(given);
  const beside = (name: string) => join(dirname(file), name);
  return { file, secretFile: beside(`${forge}-webhook.secret`), keyFile: isApp ? beside("github-app.pem") : undefined };
}

function checkPlaces(paths: readonly (string | undefined)[], advice: string): void {
  for (const path of paths) {
    if (path !== undefined && existsSync(path)) {
      throw new Error(`${path} already exists: ${advice}`);
    }
  }
}

/** The text of the configuration file. Throws ConfigError if the server would reject it. */
function composeDocument(answers: Answers, places: Places, { secret, app }: Contents): string {
  const text = stringify(toDocument(answers, places, app?.id)).replace(/^preview:$/m, `${aboutPreviews}preview:`);
  const files = new Map([
    [places.file, text],
    [places.secretFile, secret],
    [places.keyFile, app?.key ?? ""],
  ]);
  loadConfig({
    env: {},
    argvFlags: { config: places.file },
    readFile: (path) => files.get(path) ?? readFile(path),
  });
  return text;
}

/** Writes secrets first, because GitHub returns the App's key only once. */
function writeAll(answers: Answers, places: Places, contents: Contents): void {
  const { file, secretFile, keyFile } = places;
  if (keyFile !== undefined && contents.app) writeSecret(keyFile, contents.app.key.trimEnd());
  writeSecret(secretFile, contents.secret);
  writeFileSync(file, composeDocument(answers, places, contents), { flag: "wx" });
}

function writeSecret(path: string, value: string): void {
  writeFileSync(path, `${value}\n`, { mode: 0o600, flag: "wx" });
  chmodSync(path, 0o600);
}

/** GitHub's limit. */
const longestAppName = 34;

async function makeApp(answers: Answers, flags: Flags, err: (text: string) => void, signal: AbortSignal) {
  const { makeGithubApp } = await import("./github-app.ts"); // `--help` does not wait for it
  const port = Number(flags.appPort);
  if (!Number.isInteger(port) || port < 0 || port > 65_535) {
    throw new ConfigError(
      `--app-port: ${JSON.stringify(flags.appPort)} is not a port; use a number from 1 to 65535, or 0 for any free port`,
    );
  }
  const { url, apiUrl } = answers;
  return makeGithubApp({
    ...{ apiUrl, port, signal, organization: flags.organization },
    name: `Towline ${flags.organization ?? url.hostname}`.slice(0, longestAppName).trim(),
    homepage: url.href,
    webhookUrl: webhookUrl(answers),
    onPage: (page) => err(`Open this page in a browser on this machine:\n\n  ${page}\n\nWaiting for GitHub …\n`),
  });
}

function describeApp(
  { slug, html_url }: Pick<MadeApp, "slug" | "html_url">,
  { file, secretFile, keyFile }: Places,
  withoutSecret: string | false,
): string {
  const ensure = `towline webhook ensure --config ${file} --url ${withoutSecret}`;
  const hint = withoutSecret ? `\nGitHub returned no webhook secret. Set the one in the file with:\n  ${ensure}\n` : "";
  return `Written: ${file}, the key of the App ${slug} in ${keyFile} and its webhook secret in ${secretFile}
${hint}
Install the App on the repositories that KluctlDeployments follow:
  ${html_url}/installations/new
`;
}

interface Answers {
  readonly forge: ForgeKind;
  readonly url: URL;
  readonly apiUrl: string | undefined;
  readonly context: string | undefined;
}

type Ask = ((question: string) => Promise<string>) | undefined;

/** Asks for missing options on a terminal, and repeats a question until its answer is valid. */
async function askFor(flags: Flags, ask: Ask, err: (text: string) => void): Promise<Answers> {
  async function answer<T>(given: string | undefined, question: string, read: (text: string | undefined) => T) {
    if (given !== undefined || ask === undefined) return read(given);
    for (;;) {
      const text = (await ask(`${question} `)).trim() || undefined;
      try {
        return read(text);
      } catch (error) {
        if (!(error instanceof ConfigError)) throw error;
        err(`${error.message}\n`);
      }
    }
  }
  const forge = await answer(flags.forge, `Which git host: ${forgeKinds.join(", ")}?`, (text) => {
    if (isForgeKind(text)) return text;
    throw new ConfigError(`--forge is required: ${forgeKinds.join(", ")}`);
  });
  return {
    forge,
    apiUrl: await answer(flags.apiUrl, apiQuestions[forge], (text) => readApiUrl(forge, text)),
    url: await answer(flags.url, "At which address will the git host reach the server (https://…)?", readUrl),
    context: await answer(flags.context, "Which context of the kubeconfig (empty: the current one)?", (text) => text),
  };
}

const apiPaths = { github: "/api/v3", gitlab: "/api/v4", gitea: "/api/v1" };
const ownApi = "API of a self-hosted instance, such as https://";
const apiQuestions = {
  github: `${ownApi}github.example.com${apiPaths.github} (empty: github.com):`,
  gitlab: `${ownApi}gitlab.example.com${apiPaths.gitlab} (empty: gitlab.com):`,
  gitea: `Gitea's API, such as https://gitea.example.com${apiPaths.gitea}:`,
};

/** For an address without a path the default API path of the git host is added. */
function readApiUrl(forge: ForgeKind, text: string | undefined): string | undefined {
  if (text === undefined && forge === "gitea") throw new ConfigError("--api-url is required for gitea");
  if (text !== undefined && !isAddress(text)) {
    throw new ConfigError(`--api-url: ${JSON.stringify(text)} is not an address; use one that begins with https://`);
  }
  const url = text === undefined ? undefined : new URL(text);
  if (url === undefined || (forge === "github" && url.hostname === "github.com")) return undefined;
  const isHost = url.pathname === "/" && !url.hostname.startsWith("api.");
  return isHost ? new URL(apiPaths[forge], url).href : text;
}

function readUrl(text: string | undefined): URL {
  if (text !== undefined && isAddress(text)) return new URL(parseServerAddress(text).base);
  throw new ConfigError("--url is required: the server's address for git hosts, such as https://towline.example.com");
}

function isAddress(text: string): boolean {
  return /^https?:$/.test(URL.parse(text)?.protocol ?? "");
}

function isForgeKind(text: string | undefined): text is ForgeKind {
  return forgeKinds.some((kind) => kind === text);
}

function toDocument({ forge, apiUrl, context }: Answers, { secretFile, keyFile }: Places, appId: string | undefined) {
  const app = appId && { appId, appPrivateKeyFile: keyFile };
  return {
    forges: [{ id: forge, kind: forge, ...(apiUrl && { apiUrl }), webhookSecretFiles: [secretFile], ...app }],
    ...(context && { kubernetes: { context } }),
    preview: { enabled: false, serviceAccountName: "towline-preview" },
  };
}

/** Comment above `preview:` in the file. */
const aboutPreviews = `# Set enabled to true and configure a login for the git host's API to show on pull requests what merging would change. Pull
# requests are rendered before any review: read docs/preview-security.md first. They are compared with this service account
# of the deployment's namespace, which has to exist: see examples/preview-identity/service-account.yaml.
`;

/** Field names as in each git host's form. */
const forms = {
  github: {
    place: "Settings → Webhooks → Add webhook",
    url: "Payload URL",
    secret: "Secret",
    type: "Content type",
    events: ["Which events", "Pushes; and Pull requests, for previews"],
  },
  gitlab: {
    place: "Settings → Webhooks → Add new webhook",
    url: "URL",
    secret: "Secret token",
    type: undefined,
    events: ["Trigger", "Push events, Tag push events; and Merge request events, for previews"],
  },
  gitea: {
    place: "Settings → Webhooks → Add Webhook → Gitea or Forgejo",
    url: "Target URL",
    secret: "Secret",
    type: "POST Content Type",
    events: ["Trigger On", "Custom events: Push, Delete; and Pull Request, Pull Request Synchronized, for previews"],
  },
} as const;

function webhookUrl({ forge, url }: Pick<Answers, "forge" | "url">): string {
  return new URL(`webhooks/${forge}`, url).href;
}

function describeForm({ forge, url }: Answers, secretFile: string): string {
  const form = forms[forge];
  const rows = [
    [form.url, webhookUrl({ forge, url })],
    ...(form.type ? [[form.type, "application/json"]] : []),
    [form.secret, `what is in ${secretFile}`],
    [...form.events],
  ];
  return `Enter at the repository or organization, under ${form.place}:
${table(rows).replaceAll(/^(?=.)/gm, "  ")}`;
}

function describeNext({ forge }: Answers, file: string, hasLogin = false): string {
  return `
Next:
  towline doctor --config ${file}     Check the cluster, the git host, Redis and kluctl
  towline serve --config ${file}      Run the server

Without TOWLINE_REDIS_URL the server starts a private Redis, which is enough for one server.
Comments on pull requests need ${hasLogin ? "" : `a login for the API (docs/connect-${forge}.md) and `}preview.enabled in the file; the comment there explains it.
`;
}
