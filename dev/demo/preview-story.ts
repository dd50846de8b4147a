/** Follows one pull request event through the server's log and on the git host. */
import { setTimeout as delay } from "node:timers/promises";
import { type Comment, findPullRequest, type PullRequest, type Status, statusesOf } from "./pull-request.ts";
import type { ShopRepository } from "./repository.ts";
import type { DemoServer, LogLine } from "./server.ts";
import type { Step, Strand } from "./time-line.ts";

export interface PreviewStory extends Strand {
  readonly pullRequest: PullRequest;
  /** The comment as it was last read. */
  comment(): Comment | undefined;
}

export interface PreviewStoriesDeps {
  readonly server: Pick<DemoServer, "onLine">;
  readonly shop: Shop;
}

type Shop = Pick<ShopRepository, "host" | "repository" | "reporter">;

export interface PreviewStories {
  /** Calls back for each pull request event that the server accepts; returns a function that stops this. */
  onEvent(listener: (story: PreviewStory) => void): () => void;
}

const lookEveryMs = 50;

/** Remembers the comment of each pull request, to detect changes. */
export function createPreviewStories(deps: PreviewStoriesDeps): PreviewStories {
  const { owner, name } = deps.shop.repository;
  const comments = new Map<number, Comment>();
  return {
    onEvent(listener) {
      return deps.server.onLine((line) => {
        const beginning = delivered(line, `${owner}/${name}`) ?? found(line, `${owner}/${name}`);
        if (beginning) listener(startStory(beginning, comments, deps));
      });
    },
  };
}

/** How the server learned of what happened to a pull request. */
interface Beginning {
  readonly forge: string;
  readonly number: number;
  readonly steps: readonly Step[];
}

function delivered(line: LogLine, repo: string): Beginning | undefined {
  const isOurs = line.msg === "pull-request accepted" && line["repo"] === repo && Number(line["previews"]) > 0;
  return isOurs ? { forge: String(line["forge"]), number: Number(line["number"]), steps: receipt(line) } : undefined;
}

/** Without webhooks, the server notices it when it asks the git host. */
function found(line: LogLine, repo: string): Beginning | undefined {
  if (line.msg !== "found pull requests without a webhook") return undefined;
  for (const id of line["pullRequests"] as readonly string[]) {
    const [, forge = "", name = "", number = ""] = /^([^:]+):(.+)#(\d+)$/.exec(id) ?? [];
    if (name !== repo) continue;
    const { at } = line;
    const detail = "by asking the git host";
    const queued = { at, what: "queued", detail: `preview of pull request ${number}` };
    return { forge, number: Number(number), steps: [{ at, what: "found", detail }, queued] };
  }
  return undefined;
}

function startStory(
  beginning: Beginning,
  comments: Map<number, Comment>,
  { server, shop }: PreviewStoriesDeps,
): PreviewStory {
  const pullRequest = findPullRequest(shop, beginning.number);
  const { repository } = shop;
  const subject = `${beginning.forge}:${repository.owner}/${repository.name}#${pullRequest.number}`;
  const steps: Step[] = [...beginning.steps];
  const compared: LogLine[] = [];
  const failed: LogLine[] = [];
  /**
   * Steps from a comment that reports work in progress; held back until the merge is logged, so that steps are in
   * order.
   */
  const early: Step[] = [];
  let merged = false;
  let [ended, missing] = [false, "the server has not reported to the git host"];
  let failure: Error | undefined;

  /** Adds a step if the comment has changed. */
  async function lookAtComment(): Promise<void> {
    const comment = (await pullRequest.comments()).at(-1);
    const before = comments.get(pullRequest.number);
    if (ended || comment === undefined || (comment.id === before?.id && comment.body === before.body)) return;
    comments.set(pullRequest.number, comment);
    const step = { at: Date.now(), ...describeComment(comment, before) };
    (isWorking(comment) && !merged ? early : steps).push(step);
  }

  async function lookOn(): Promise<void> {
    for (; !ended; await delay(lookEveryMs)) await lookAtComment();
  }

  async function onPreviewed(line: LogLine): Promise<void> {
    const head = await pullRequest.head();
    steps.push(...describePreview(line, { compared, failed }, head), ...early);
    merged = true;
  }

  async function onReported(line: LogLine): Promise<void> {
    await lookAtComment();
    if (line["state"] === "done") {
      const statuses = await statusesOf(shop, String(line["head"]));
      steps.push(...statuses.map((status) => toStep(status, line.at)));
    }
    missing = "";
  }

  const fail = (error: unknown) => void (failure ??= error instanceof Error ? error : new Error(String(error)));
  const unhear = server.onLine((line) => {
    if (line["pullRequest"] !== subject) return;
    if (line.msg === "preview compared") compared.push(line);
    if (line.msg === "preview failed") failed.push(line);
    if (line.msg === "previewed") onPreviewed(line).catch(fail);
    if (line.msg === "reported" && line["state"] !== "working") onReported(line).catch(fail);
    if (line.msg === "forge rejected the report") fail(new Error(`${line.msg}: ${String(line["error"])}`));
  });
  lookOn().catch(fail);

  return {
    pullRequest,
    steps,
    comment: () => comments.get(pullRequest.number),
    missing() {
      if (failure) throw failure;
      return missing === "" ? [] : [missing];
    },
    end() {
      ended = true;
      unhear();
    },
  };
}

function receipt(line: LogLine): Step[] {
  const ms = Number(line["ms"] ?? 0);
  return [
    { at: line.at - ms, what: "webhook received", detail: `${String(line["forge"])}, pull request, signature good` },
    { at: line.at, what: "queued", detail: `preview of pull request ${String(line["number"])}` },
  ];
}

/** One log line for each deployment. */
interface Previewed {
  readonly compared: readonly LogLine[];
  readonly failed: readonly LogLine[];
}

function describePreview(line: LogLine, { compared, failed }: Previewed, head: string): Step[] {
  const { at } = line;
  const notCompared = (detail: string): Step => ({ at, what: "not compared", detail });
  if (line["obstacle"] !== undefined) return [notCompared(String(line["obstacle"]))];
  const failures = failed.map((one) => notCompared(`${nameOf(one)}: ${firstLine(String(one["error"]))}`));
  if (compared.length === 0) return failures.length > 0 ? failures : [notCompared("it affects no deployment")];
  const mergedAt = Math.min(...compared.map((one) => one.at - Number(one["ms"])));
  const [short, base] = [head.slice(0, 7), String(line["base"]).slice(0, 7)];
  return [
    { at: mergedAt, what: "merged", detail: `${short} into main ${base}, on the side` },
    { at, what: "compared", detail: `${compared.map(nameOf).join(", ")} with the live cluster` },
    ...failures,
  ];
}

function nameOf(line: LogLine): string {
  return `${String(line["namespace"])}/${String(line["name"])}`;
}

function firstLine(text: string): string {
  return text.trim().split("\n", 1)[0] ?? "";
}

function describeComment(comment: Comment, before: Comment | undefined): Omit<Step, "at"> {
  const { id, url } = comment;
  if (before?.id !== id)
    return { what: "comment posted", detail: isWorking(comment) ? `${url}  ${verdictOf(comment)}` : url };
  return { what: "comment changed", detail: `the same one (id ${id}): ${verdictOf(comment)}` };
}

function isWorking(comment: Comment): boolean {
  return verdictOf(comment).endsWith("…");
}

function verdictOf({ body }: Comment): string {
  return /^### Towline: (.*)$/m.exec(body)?.[1] ?? "";
}

function toStep({ context, state, description }: Status, at: number): Step {
  return { at, what: "status", detail: `${context}: ${state}, ${description}` };
}

/** Waits until a comment of the server on the pull request contains the text. */
export function watchComment(pullRequest: PullRequest, text: string): Strand {
  return watch(`no comment says "${text}"`, async () => {
    const comment = (await pullRequest.comments()).find(({ body }) => body.includes(text));
    return comment && [{ at: Date.now(), what: "comment changed", detail: `the same one (id ${comment.id})` }];
  });
}

/** Waits until the commit statuses show the result. */
export function watchStatuses(shop: Shop, commit: string): Strand {
  return watch(`${commit.slice(0, 7)} has no final status`, async () => {
    const statuses = await statusesOf(shop, commit);
    const summedUp = statuses.some(({ context }) => context === "towline");
    const isFinal = summedUp && statuses.every(({ state }) => state !== "pending");
    return isFinal ? statuses.map((status) => toStep(status, Date.now())) : undefined;
  });
}

/** Looks again and again until there are steps. `missing`: what is still to come, in words. */
function watch(missing: string, look: () => Promise<readonly Step[] | undefined>): Strand {
  const steps: Step[] = [];
  let [isDone, ended] = [false, false];
  let failure: Error | undefined;

  async function lookOn(): Promise<void> {
    for (; !ended && !isDone; await delay(lookEveryMs)) {
      const found = await look();
      steps.push(...(found ?? []));
      isDone = found !== undefined;
    }
  }

  lookOn().catch((error: unknown) => (failure = error as Error));
  return {
    steps,
    missing() {
      if (failure) throw failure;
      return isDone ? [] : [missing];
    },
    end: () => void (ended = true),
  };
}
