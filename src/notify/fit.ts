/** Limits a notification: its texts to one clean line each, and what is rendered of it to a number of bytes. Pure. */
import type { Notification } from "../model.ts";

/** As long as the model promises. */
const longestTitle = 200;
/** Enough to recognize a problem. */
const longestText = 500;
/** Kubernetes allows 253 characters for each part of `namespace/name`. */
const longestName = 507;
const longestLabel = 100;
/** What browsers and proxies accept everywhere. A longer address is left out, because its beginning is of no use. */
const longestUrl = 2_000;
/** As many as the model promises. */
const mostLines = 20;
const mostOthers = 20;

/**
 * Line breaks and other controls, and characters that are invisible or change the writing direction; except those that
 * emoji and some scripts need between two characters.
 */
const hidden =
  /(?:(?!\u200c|\u200d|\ufe0e|\ufe0f)[\s\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}])+/gu;

/** One line without hidden characters, of at most `most` code points; if it is cut, the last one is an ellipsis. */
export function toLine(text: string, most: number): string {
  // What follows takes time in proportion to the length, and only the beginning can be in the result.
  const start = text.slice(0, 10 * most);
  const characters = [...start.replace(hidden, " ").trim()];
  const isWhole = characters.length <= most && start.length === text.length;
  return isWhole ? characters.join("") : `${characters.slice(0, most - 1).join("")}…`;
}

/** A notification whose texts are safe in a header and on one line, and whose lists are short. */
export function limitTexts(message: Notification): Notification {
  const { title, facts, lines, linesLeftOut, links, cluster } = message;
  return {
    ...message,
    title: toLine(title, longestTitle),
    facts: facts
      .slice(0, mostOthers)
      .map(({ label, value }) => ({ label: toLine(label, longestLabel), value: toLine(value, longestText) })),
    lines: lines.slice(0, mostLines).map(({ name, state, text }) => ({
      name: toLine(name, longestName),
      state,
      text: toLine(text, longestText),
    })),
    linesLeftOut: linesLeftOut + Math.max(lines.length - mostLines, 0),
    links: links.slice(0, mostOthers).flatMap(({ label, url }) => {
      const address = findWebAddress(url);
      return address === undefined ? [] : [{ label: toLine(label, longestLabel), url: address }];
    }),
    cluster: toLine(cluster, longestName),
  };
}

function findWebAddress(url: string): string | undefined {
  const { protocol, href = "" } = URL.parse(url) ?? {};
  return (protocol === "https:" || protocol === "http:") && href.length <= longestUrl ? href : undefined;
}

/**
 * Renders the notification in at most `mostBytes`. For that, it leaves out lines from the end, then links and facts, and
 * the first line last: what needs somebody comes first. `undefined` if even the rest is too large.
 */
export function fit(
  message: Notification,
  mostBytes: number,
  render: (message: Notification) => string,
): string | undefined {
  for (let rest: Notification | undefined = limitTexts(message); rest !== undefined; rest = leaveOut(rest)) {
    const body = render(rest);
    if (Buffer.byteLength(body) <= mostBytes) return body;
  }
  return undefined;
}

function leaveOut(message: Notification): Notification | undefined {
  const { lines, linesLeftOut, links, facts } = message;
  const fewerLines = { ...message, lines: lines.slice(0, -1), linesLeftOut: linesLeftOut + 1 };
  if (lines.length > 1) return fewerLines;
  if (links.length > 0) return { ...message, links: links.slice(0, -1) };
  if (facts.length > 0) return { ...message, facts: facts.slice(0, -1) };
  return lines.length > 0 ? fewerLines : undefined;
}
