/** Gives messages the title and the note that users wrote for a target, whatever its kind. */
import type { OwnWords } from "../config.ts";
import { around } from "../kit/around.ts";
import type { Notification } from "../model.ts";
import type { Notifier } from "../ports.ts";
import { compileText } from "./template.ts";

/** The first entry that selects a message applies to it. Throws an Error that names the first unknown name. */
export function withOwnWords(notifier: Notifier, words: readonly OwnWords[]): Notifier {
  if (words.length === 0) return notifier;
  const compiled = words.map(({ kinds, states, title, note }, index) => ({
    selects: ({ kind, state }: Notification) =>
      (kinds.length === 0 || kinds.includes(kind)) && (states.length === 0 || states.includes(state)),
    title: title === undefined ? undefined : compileText(title, `words[${index}].title`),
    note: note === undefined ? undefined : compileText(note, `words[${index}].note`),
  }));

  function rewrite(message: Notification): Notification {
    const own = compiled.find(({ selects }) => selects(message));
    const note = own?.note?.(message);
    return {
      ...message,
      title: own?.title?.(message) ?? message.title,
      facts: note ? [...message.facts, { label: "Note", value: note }] : message.facts,
    };
  }

  return around<Notifier>(notifier, { send: (next, message, options) => next(rewrite(message), options) });
}
