/** Every command by name. A command's modules are loaded only when it is called. */
import type { Command } from "commander";
import type { DoctorOptions } from "../app/doctor.ts";
import type { Config } from "../config.ts";
import type { Section } from "../doctor/finding.ts";
import type { Logger, SecretList } from "../log.ts";

/** How to reload the configuration, and the list of secrets that logs mask. */
export interface Reading {
  readonly load: () => Config;
  readonly secrets: SecretList;
  /** Interval between checks for changes. */
  readonly everyMs?: number | undefined;
}

export interface DemoOptions {
  /** Ends after the merge, and fails unless the cluster and the git host are in the expected state. */
  readonly once: boolean;
  readonly webhooks: boolean;
  /** The user's own cluster. */
  readonly kubeconfig?: string | undefined;
}

export interface ProgramDeps {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Runs the server until it is stopped, and returns the exit code. */
  readonly serve: (config: Config, log: Logger, reading: Reading) => Promise<number>;
  /** Returns the exit code. */
  readonly demo: (options: DemoOptions) => Promise<number>;
  readonly doctor: (options: DoctorOptions) => Promise<readonly Section[]>;
  /** Reads stdin to its end. */
  readonly stdin: () => Promise<string>;
  /** Asks the user; absent if stdin or stderr is not a terminal. */
  readonly ask?: ((question: string) => Promise<string>) | undefined;
  /** Width of the terminal that `out` writes to; absent if it is not a terminal. */
  readonly columns?: number | undefined;
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
}

/** Gives a command its options, help and action. */
export type Define = (command: Command, deps: ProgramDeps, onCode: (code: number) => void) => void;

export interface CommandEntry {
  readonly path: readonly [name: string, inner?: string];
  /** Other names of the inner command: the singular and short names. */
  readonly aliases?: readonly string[];
  readonly summary: string;
  readonly section: string;
  readonly load: () => Promise<Define>;
}

const run = "Run:";
const inspect = "Inspect:";
const control = "Control:";
const setUp = "Set up:";

/** Commands that only have subcommands. */
export const groups: Readonly<Record<string, string>> = {
  controller: "Run the server with the options of kluctl's controller",
  config: "Print and validate the configuration",
  get: "List deployments, pull request previews, deliveries, queued jobs or notifications",
  notify: "Try the targets of notifications",
  webhook: "Create webhooks, explain deliveries and replay them",
};

export const commands: readonly CommandEntry[] = [
  {
    path: ["serve"],
    summary: "Run the server: receive webhooks and deploy",
    section: run,
    load: async () => (await import("./server-commands.ts")).defineServe,
  },
  {
    path: ["controller", "run"],
    summary: "Run the server with the options and KLUCTL_* variables of `kluctl controller run`",
    section: run,
    load: async () => (await import("./server-commands.ts")).defineControllerRun,
  },
  {
    path: ["demo"],
    summary: "Show pushes and pull requests being deployed, with a cluster and a git host on this machine",
    section: run,
    load: async () => (await import("./demo.ts")).defineDemo,
  },
  {
    path: ["preview-runner"],
    summary: "Render previews for a server in an isolated environment",
    section: run,
    load: async () => (await import("./preview-runner.ts")).definePreviewRunner,
  },
  {
    path: ["get", "deployments"],
    aliases: ["deployment", "kd"],
    summary: "List KluctlDeployments with readiness, commit, drift and what each waits for",
    section: inspect,
    load: async () => (await import("./get-deployments.ts")).defineGetDeployments,
  },
  {
    path: ["get", "previews"],
    aliases: ["preview"],
    summary: "List open pull requests and what merging each would change",
    section: inspect,
    load: async () => (await import("./get-previews.ts")).defineGetPreviews,
  },
  {
    path: ["get", "deliveries"],
    aliases: ["delivery"],
    summary: "List deliveries from git hosts and the outcome of each",
    section: inspect,
    load: async () => (await import("./get-deliveries.ts")).defineGetDeliveries,
  },
  {
    path: ["get", "queue"],
    summary: "List active, waiting and failed jobs with reasons and retry times",
    section: inspect,
    load: async () => (await import("./get-queue.ts")).defineGetQueue,
  },
  {
    path: ["get", "notifications"],
    aliases: ["notification"],
    summary: "List the targets of notifications, what each was sent last, and problems",
    section: inspect,
    load: async () => (await import("./get-notifications.ts")).defineGetNotifications,
  },
  {
    path: ["trace"],
    summary: "Show where a commit is deployed, and how far it got in each deployment",
    section: inspect,
    load: async () => (await import("./trace.ts")).defineTrace,
  },
  {
    path: ["replay"],
    summary: "Show which deployments recorded deliveries would affect with a changed configuration",
    section: inspect,
    load: async () => (await import("./replay.ts")).defineReplay,
  },
  {
    path: ["preview"],
    summary: "Show what merging a working copy would change, as a pull request comment would",
    section: inspect,
    load: async () => (await import("./preview.ts")).definePreview,
  },
  {
    path: ["reconcile"],
    summary: "Reconcile deployments now and wait for the result",
    section: control,
    load: async () => (await import("./requests.ts")).defineReconcile,
  },
  {
    path: ["suspend"],
    summary: "Suspend deployments until they are resumed",
    section: control,
    load: async () => (await import("./requests.ts")).defineSuspend,
  },
  {
    path: ["resume"],
    summary: "Resume deployments and wait until missed changes are deployed",
    section: control,
    load: async () => (await import("./requests.ts")).defineResume,
  },
  {
    path: ["init"],
    summary: "Write an initial configuration and show what to enter at the git host",
    section: setUp,
    load: async () => (await import("./init.ts")).defineInit,
  },
  {
    path: ["webhook", "explain"],
    summary: "Show which deployments a delivery affects, and why it does not affect the others",
    section: setUp,
    load: async () => (await import("./webhook-explain.ts")).defineWebhookExplain,
  },
  {
    path: ["webhook", "replay"],
    summary: "Send a delivery to the server again, signed with the configured secret",
    section: setUp,
    load: async () => (await import("./webhook-replay.ts")).defineWebhookReplay,
  },
  {
    path: ["webhook", "ensure"],
    summary: "Create and repair webhooks through the git hosts' APIs",
    section: setUp,
    load: async () => (await import("./webhook-ensure.ts")).defineWebhookEnsure,
  },
  {
    path: ["notify", "test"],
    summary: "Send a sample of each notification to a target",
    section: setUp,
    load: async () => (await import("./notify-test.ts")).defineNotifyTest,
  },
  {
    path: ["notify", "explain"],
    summary: "Show which targets are notified of a deployment, and why",
    section: setUp,
    load: async () => (await import("./notify-explain.ts")).defineNotifyExplain,
  },
  {
    path: ["doctor"],
    summary: "Check what would keep the server from working or from replacing kluctl's controller (read-only)",
    section: setUp,
    load: async () => (await import("./doctor.ts")).defineDoctor,
  },
  {
    path: ["migrate"],
    summary: "Convert KluctlDeployments of flux.kluctl.io/v1alpha1 to gitops.kluctl.io/v1beta1",
    section: setUp,
    load: async () => (await import("./migrate.ts")).defineMigrate,
  },
  {
    path: ["config", "print"],
    summary: "Print the effective configuration and the source of each value, with secrets masked",
    section: setUp,
    load: async () => (await import("./config-commands.ts")).defineConfigPrint,
  },
  {
    path: ["config", "validate"],
    summary: "Report every problem in the configuration",
    section: setUp,
    load: async () => (await import("./config-commands.ts")).defineConfigValidate,
  },
  {
    path: ["config", "schema"],
    summary: "Print the JSON schema of the configuration file, for editors",
    section: setUp,
    load: async () => (await import("./config-commands.ts")).defineConfigSchema,
  },
  {
    path: ["completion"],
    summary: "Print the completion script for a shell",
    section: setUp,
    load: async () => (await import("./completion.ts")).defineCompletion,
  },
  {
    path: ["version"],
    summary: "Print the version",
    section: setUp,
    load: async () => (await import("./version.ts")).defineVersion,
  },
];
