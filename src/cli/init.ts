/** `towline init`: a configuration to begin with, and what to enter at the git host. */
import { randomBytes } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { Option } from "commander";
import { stringify } from "yaml";
import { type ForgeKind, loadConfig } from "../config.ts";
import { forgeKinds } from "../config/schema.ts";
import { ConfigError } from "../errors.ts";
import { clusterConfig } from "./cluster.ts";
import type { Define } from "./commands.ts";
import { readFile } from "./configuration.ts";
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
}

const help = `
It writes a configuration file and a new webhook secret beside it, and prints what to enter at the git host. On a terminal
it asks for what is not given; otherwise --forge and --url are needed. Files that are there are left as they are.
It connects to nothing, unless asked: --ensure-webhooks also makes the webhooks, as \`towline webhook ensure\` does, which
is for calling again later.

  towline init
  towline init --forge github --url https://towline.example.com
  towline init --forge gitea --url https://towline.example.com --api-url https://gitea.example.com/api/v1 --file conf/towline.yaml
  towline init --forge gitlab --url https://towline.example.com --ensure-webhooks --repo org/shop --token-file admin.token

Exit codes:
  0  the files are written, and with --ensure-webhooks the webhooks are there
  1  they are not: a file is there already, or cannot be written; or a webhook is not, and what is printed says why
  2  the command line is wrong, or an answer is`;

export const defineInit: Define = (command, { out, ask, stdin }, onCode) => {
  command
    .addOption(new Option("--forge <kind>", "what the git host runs; Forgejo is gitea").choices(forgeKinds))
    .option("--url <url>", "where git hosts will reach the server: https://towline.example.com")
    .option("--api-url <url>", "the API of a git host of your own; else the public service")
    .option("--context <name>", "context of the kubeconfig; else the current one, in a pod its own cluster")
    .option("--file <path>", "the file to write", "towline.yaml")
    .option("--ensure-webhooks", "make the webhooks, through the git host's API")
    .option("--repo <repos...>", "of these repositories, else of those that KluctlDeployments follow")
    .option("--token-file <file>", "a token that may administer webhooks; it is not kept")
    .addHelpText("after", help)
    .action(async (flags: Flags) => {
      const { ensureWebhooks: isEnsured = false, tokenFile, repo = [] } = flags;
      if (isEnsured && tokenFile === undefined) {
        throw new ConfigError(
          "--ensure-webhooks needs a token that may administer webhooks: give it with --token-file",
        );
      }
      const answers = await askFor(flags, ask);
      const file = resolve(flags.file);
      const secretFile = join(dirname(file), `${answers.forge}-webhook.secret`);
      for (const path of [file, secretFile]) {
        if (existsSync(path)) throw new Error(`${path} is there already: remove it, or name another with --file`);
      }
      const text = stringify(toDocument(answers, secretFile));
      const secret = randomBytes(24).toString("hex");
      // Before anything is written: what would not be taken is not left behind.
      loadConfig({
        env: {},
        argvFlags: { config: file },
        readFile: (path) => (path === file ? text : path === secretFile ? secret : readFile(path)),
      });
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(secretFile, `${secret}\n`, { mode: 0o600, flag: "wx" });
      chmodSync(secretFile, 0o600);
      writeFileSync(file, text, { flag: "wx" });
      out(`Written: ${file}, and a new secret in ${secretFile}\n\n`);
      if (!isEnsured) out(describeForm(answers, secretFile));
      const code = isEnsured
        ? await ensureWebhooks(
            repo,
            { url: answers.url.href, tokenFile, output: "text" },
            clusterConfig({}, { config: file }),
            { stdin, out },
          )
        : 0;
      out(describeNext(answers, file));
      onCode(code);
    });
};

interface Answers {
  readonly forge: ForgeKind;
  readonly url: URL;
  readonly apiUrl: string | undefined;
  readonly context: string | undefined;
}

type Ask = ((question: string) => Promise<string>) | undefined;

async function askFor(flags: Flags, ask: Ask): Promise<Answers> {
  const answer = async (given: string | undefined, question: string) =>
    given ?? ((await ask?.(`${question} `))?.trim() || undefined);
  const forge = await answer(flags.forge, `Which git host: ${forgeKinds.join(", ")}?`);
  if (!isForgeKind(forge)) throw new ConfigError(`which git host? Say so with --forge: ${forgeKinds.join(", ")}`);
  const example = {
    github: "github.example.com/api/v3",
    gitlab: "gitlab.example.com/api/v4",
    gitea: "gitea.example.com/api/v1",
  };
  const own = `The API of a host of your own, such as https://${example[forge]} (empty: the public service):`;
  const apiUrl = await answer(flags.apiUrl, own);
  if (forge === "gitea" && apiUrl === undefined) throw new ConfigError("Gitea has no public service: give --api-url");
  const url = URL.parse((await answer(flags.url, "Where will the git host reach the server, https://…?")) ?? "");
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new ConfigError("where will the git host reach the server? Say so with --url: https://towline.example.com");
  }
  return {
    ...{ forge, url, apiUrl },
    context: await answer(flags.context, "Which context of the kubeconfig (empty: the current one)?"),
  };
}

function isForgeKind(text: string | undefined): text is ForgeKind {
  return forgeKinds.some((kind) => kind === text);
}

function toDocument({ forge, apiUrl, context }: Answers, secretFile: string) {
  return {
    forges: [{ id: forge, kind: forge, ...(apiUrl && { apiUrl }), webhookSecretFiles: [secretFile] }],
    ...(context && { kubernetes: { context } }),
  };
}

/** In the words of each host's own form. */
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

function describeForm({ forge, url }: Answers, secretFile: string): string {
  const form = forms[forge];
  const rows = [
    [form.url, new URL(`webhooks/${forge}`, url.href.replace(/\/*$/, "/")).href],
    ...(form.type ? [[form.type, "application/json"]] : []),
    [form.secret, `what is in ${secretFile}`],
    [...form.events],
  ];
  return `Enter at the repository or organization, ${form.place}:
${table(rows).replaceAll(/^(?=.)/gm, "  ")}`;
}

function describeNext({ forge }: Answers, file: string): string {
  return `
Then:
  towline doctor --config ${file}     whether cluster, git host, Redis and kluctl are as the server needs them
  towline serve --config ${file}      the server

Without TOWLINE_REDIS_URL the server starts a Redis of its own, which is fine for one server.
Comments on pull requests need a login for the API: docs/connect-${forge}.md
`;
}
