/** One object that a merge would change: its title, and its diff or the keys of a Secret. */
import { describeMissing } from "../../comment/objects.ts";
import type { PreviewObject } from "../../model/report.ts";
import { plural } from "../../preview/summary.ts";
import type { Colouring, Tone } from "./palette.ts";
import { oneLine, sentence, toLines } from "./safe-text.ts";

interface Look {
  readonly sign: string;
  readonly tone: Tone;
}

const looks: Readonly<Record<PreviewObject["action"], Look>> = {
  changed: { sign: "~", tone: "changed" },
  new: { sign: "+", tone: "added" },
  deleted: { sign: "-", tone: "removed" },
  orphan: { sign: "? orphan", tone: "changed" },
};

export function renderObject(object: PreviewObject, withNamespace: boolean, colour: Colouring): string[] {
  const { sign, tone } = looks[object.action];
  const title = colour(tone, `${sign} ${describeName(object, withNamespace)}`);
  const risks = object.risks.map(({ text }) => ` – ${sentence(text)}`);
  const details = object.secretKeys === undefined ? renderDiff(object, colour) : renderKeys(object.secretKeys, colour);
  return [`${title}${risks.join("")}${describeMissing(object)}`, ...details.map((line) => `  ${line}`)];
}

/** `Deployment shop/frontend`. */
export function describeName({ ref }: PreviewObject, withNamespace: boolean): string {
  const name = withNamespace && ref.namespace ? `${ref.namespace}/${ref.name}` : ref.name;
  return `${oneLine(ref.kind)} ${oneLine(name)}`;
}

function renderDiff({ diff = "", linesLeftOut = 0 }: PreviewObject, colour: Colouring): string[] {
  const lines = diff === "" ? [] : toLines(diff).map((line) => (/^[-+ ]/.test(line) ? line : ` ${line}`));
  const all = linesLeftOut > 0 ? [...lines, `   … ${plural(linesLeftOut, "more line")}`] : lines;
  return all.map((line) => colour(line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : "aside", line));
}

const keyLooks: Readonly<Record<NonNullable<PreviewObject["secretKeys"]>[number]["change"], Look>> = {
  added: looks.new,
  removed: looks.deleted,
  changed: looks.changed,
  unchanged: { sign: " ", tone: "aside" },
};

function renderKeys(keys: NonNullable<PreviewObject["secretKeys"]>, colour: Colouring): string[] {
  return keys.map(({ key, change }) => {
    const { sign, tone } = keyLooks[change];
    return colour(tone, `${sign} key ${oneLine(key)} ${change}`);
  });
}
