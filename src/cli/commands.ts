/** Every command by name. What it is made of is loaded when it is called. */
import type { Command } from "commander";
import type { DoctorOptions } from "../app/doctor.ts";
import type { Config } from "../config.ts";
import type { Section } from "../doctor/finding.ts";
import type { Logger, SecretList } from "../log.ts";

/** How the configuration is read again, and what its secrets are hidden from. */
export interface Reading {
  readonly load: () => Config;
  readonly secrets: SecretList;
  /** How often it is looked at. */
  readonly everyMs?: number | undefined;
}

export interface ProgramDeps {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Runs the server until it is stopped, and returns the exit code. */
  readonly serve: (config: Config, log: Logger, reading: Reading) => Promise<number>;
  readonly doctor: (options: DoctorOptions) => Promise<readonly Section[]>;
  /** All of it. */
  readonly stdin: () => Promise<string>;
  /** Asks a person; absent where there is none. */
  readonly ask?: ((question: string) => Promise<string>) | undefined;
  /** How wide the terminal is that `out` writes to; absent where it is none. */
  readonly columns?: number | undefined;
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
}

/** Gives a command its options, help and action. */
export type Define = (command: Command, deps: ProgramDeps, onCode: (code: number) => void) => void;

export interface CommandEntry {
  readonly path: readonly [name: string, inner?: string];
  /** Of the inner command: the singular, and short names. */
  readonly aliases?: readonly string[];
  readonly summary: string;
  readonly section: string;
  readonly load: () => Promise<Define>;
}

const run = "The server:";
const look = "Look:";
const act = "Act:";
const setUp = "Set up:";

/** Commands that only hold others. */
export const groups: Readonly<Record<string, string>> = {
  controller: "run the server with the options of kluctl's controller",
  config: "look at the configuration",
  get: "show deployments, previews of pull requests, deliveries of git hosts, or the queue",
  webhook: "create webhooks, find out what they do, and send them again",
};

export const commands: readonly CommandEntry[] = [
  {
    path: ["serve"],
    summary: "receive webhooks and deploy, until it is stopped",
    section: run,
    load: async () => (await import("./server-commands.ts")).defineServe,
  },
  {
    path: ["controller", "run"],
    summary: "run with the options and KLUCTL_* variables of `kluctl controller run`",
    section: run,
    load: async () => (await import("./server-commands.ts")).defineControllerRun,
  },
  {
    path: ["preview-runner"],
    summary: "render previews for a server, in a place where nothing else is",
    section: run,
    load: async () => (await import("./preview-runner.ts")).definePreviewRunner,
  },
  {
    path: ["get", "deployments"],
    aliases: ["deployment", "kd"],
    summary: "show the KluctlDeployments: ready, commit, drift, and what each waits for",
    section: look,
    load: async () => (await import("./get-deployments.ts")).defineGetDeployments,
  },
  {
    path: ["get", "previews"],
    aliases: ["preview"],
    summary: "show the open pull requests, and what merging each would change",
    section: look,
    load: async () => (await import("./get-previews.ts")).defineGetPreviews,
  },
  {
    path: ["get", "deliveries"],
    aliases: ["delivery"],
    summary: "show what git hosts have sent, and what became of it",
    section: look,
    load: async () => (await import("./get-deliveries.ts")).defineGetDeliveries,
  },
  {
    path: ["get", "queue"],
    summary: "show what runs, waits and failed, why, and when it is tried again",
    section: look,
    load: async () => (await import("./get-queue.ts")).defineGetQueue,
  },
  {
    path: ["trace"],
    summary: "say where a commit is: received, queued, rendered, applied, healthy, for each deployment",
    section: look,
    load: async () => (await import("./trace.ts")).defineTrace,
  },
  {
    path: ["preview"],
    summary: "print what merging a working copy would change, as a pull request would get it",
    section: look,
    load: async () => (await import("./preview.ts")).definePreview,
  },
  {
    path: ["reconcile"],
    summary: "have deployments looked at now, and wait for what comes of it",
    section: act,
    load: async () => (await import("./ask.ts")).defineReconcile,
  },
  {
    path: ["suspend"],
    summary: "have nothing deployed any more, until resume",
    section: act,
    load: async () => (await import("./ask.ts")).defineSuspend,
  },
  {
    path: ["resume"],
    summary: "end a suspension, and wait until what was missed is deployed",
    section: act,
    load: async () => (await import("./ask.ts")).defineResume,
  },
  {
    path: ["init"],
    summary: "write a configuration to begin with, and say what to enter at the git host",
    section: setUp,
    load: async () => (await import("./init.ts")).defineInit,
  },
  {
    path: ["webhook", "explain"],
    summary: "say whom a delivery of a git host would concern, and why not the others",
    section: setUp,
    load: async () => (await import("./webhook-explain.ts")).defineWebhookExplain,
  },
  {
    path: ["webhook", "replay"],
    summary: "send a delivery to the server again, signed with the configured secret",
    section: setUp,
    load: async () => (await import("./webhook-replay.ts")).defineWebhookReplay,
  },
  {
    path: ["webhook", "ensure"],
    summary: "create and repair the webhooks at the git hosts, through their APIs",
    section: setUp,
    load: async () => (await import("./webhook-ensure.ts")).defineWebhookEnsure,
  },
  {
    path: ["doctor"],
    summary:
      "say what would keep the server from working, or from taking the place of kluctl's controller; changes nothing",
    section: setUp,
    load: async () => (await import("./doctor.ts")).defineDoctor,
  },
  {
    path: ["migrate"],
    summary: "write KluctlDeployments of flux.kluctl.io/v1alpha1 anew for the API of today",
    section: setUp,
    load: async () => (await import("./migrate.ts")).defineMigrate,
  },
  {
    path: ["config", "print"],
    summary: "print the effective configuration and where each value comes from; secrets are masked",
    section: setUp,
    load: async () => (await import("./config-commands.ts")).defineConfigPrint,
  },
  {
    path: ["config", "validate"],
    summary: "say everything that is wrong with the configuration",
    section: setUp,
    load: async () => (await import("./config-commands.ts")).defineConfigValidate,
  },
  {
    path: ["config", "schema"],
    summary: "print the JSON schema of the configuration file, for editors",
    section: setUp,
    load: async () => (await import("./config-commands.ts")).defineConfigSchema,
  },
  {
    path: ["completion"],
    summary: "print the script that lets a shell complete towline's commands and options",
    section: setUp,
    load: async () => (await import("./completion.ts")).defineCompletion,
  },
  {
    path: ["version"],
    summary: "print the version as JSON",
    section: setUp,
    load: async () => (await import("./version.ts")).defineVersion,
  },
];
