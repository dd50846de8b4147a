/** kluctl's output while it runs, for users who watch; secrets are masked. */
import type { CommandResult, Key, ValidateResult } from "../model.ts";
import { createRedactor, redactorOf } from "../redact/redactor.ts";
import { weightOf, weightOfSecrets, withoutPlainObjects } from "../redact/weight.ts";
import { inThread, largeText } from "../kit/in-thread.ts";
import { maskShapes } from "../redact/shapes.ts";
import { isOfWorkingCopy, isProgress } from "./progress.ts";

export interface SaidLine {
  readonly at: number;
  /** The reconcile ID of the reconciliation or request that the line belongs to. */
  readonly job: string;
  readonly command: string;
  readonly text: string;
}

/** Never blocks and never throws. */
export type OnLine = (deployment: Key, line: SaidLine) => void;

export interface LineForwarder {
  /** Takes one line, in which logins are already masked. */
  line(words: string): void;
  /** `result`: absent if there is none. Never rejects. */
  end(result: CommandResult | ValidateResult | undefined): Promise<void>;
}

export interface LineForwarderOptions {
  readonly deployment: Key;
  readonly reconcileId: string;
  readonly command: string;
  /** Secret values to mask. */
  readonly known: readonly string[];
  readonly onLine: OnLine;
}

/** Limits per run; the complete output is in the server's log. */
const most = { lines: 300, length: 1_000, total: 32_000 };

/**
 * Sends progress lines, which only name objects, at once. Any other line may quote the project, and with it a Secret,
 * so it is held until the result shows which values are secret.
 */
export function createLineForwarder({
  deployment,
  reconcileId,
  command,
  known,
  onLine,
}: LineForwarderOptions): LineForwarder {
  const from = performance.now();
  const held: string[] = [];
  let [lines, length, full] = [0, 0, false];

  function say(text: string): void {
    onLine(deployment, { at: Date.now(), job: reconcileId, command, text });
  }

  function sayBounded(text: string): void {
    if (full) return;
    const short = text.length > most.length ? `${text.slice(0, most.length)}…` : text;
    lines++;
    length += short.length;
    full = lines >= most.lines || length >= most.total;
    say(full ? "(further lines are in the server's log only)" : short);
  }

  return {
    line(words) {
      if (isOfWorkingCopy(words)) return;
      if (isProgress(words)) sayBounded(maskShapes(words));
      else if (held.length < most.lines) held.push(words);
    },
    async end(result) {
      if (held.length > 0) {
        const { text, whyIncomplete } = await redactSafely(held, result, known);
        if (whyIncomplete === undefined) for (const line of text.split("\n")) sayBounded(line);
        else sayBounded(`(${held.length} lines are in the server's log only: ${whyIncomplete})`);
      }
      const seconds = ((performance.now() - from) / 1_000).toFixed(1);
      say(`${result === undefined ? "failed" : endOf(result)} after ${seconds} s`);
    },
  };
}

interface Redacted {
  readonly text: string;
  readonly whyIncomplete?: string | undefined;
}

async function redactSafely(
  lines: readonly string[],
  result: CommandResult | ValidateResult | undefined,
  known: readonly string[],
): Promise<Redacted> {
  // Redacting line by line would miss secrets that span several lines.
  const text = lines.join("\n");
  const withSecrets = result && "objects" in result ? result : undefined;
  const weight = text.length + weightOfSecrets(known) + (withSecrets ? weightOf(withSecrets) : 0);
  if (weight <= largeText) return redactLines(text, withSecrets, known);
  const parts = withSecrets && withoutPlainObjects(withSecrets);
  return inThread(import.meta.url, redactLines, [text, parts, known]).catch(() => ({
    text: "",
    whyIncomplete: "could not find the secrets in them",
  }));
}

/**
 * Takes a second for some megabytes.
 *
 * @inThread
 */
export function redactLines(text: string, result: CommandResult | undefined, known: readonly string[]): Redacted {
  const redactor = result ? redactorOf(result, known) : createRedactor(known);
  return { text: redactor.text(text), whyIncomplete: redactor.whyIncomplete() };
}

function endOf({ errors }: CommandResult | ValidateResult): string {
  if (errors.length === 0) return "done";
  return errors.length === 1 ? "ended with 1 error" : `ended with ${errors.length} errors`;
}
