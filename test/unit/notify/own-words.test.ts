import { expect, test } from "vitest";
import type { Notification } from "../../../src/model.ts";
import { withOwnWords } from "../../../src/notify/own-words.ts";
import type { Notifier, SendOptions } from "../../../src/ports.ts";
import { sampleNotification } from "../../support/sample-notification.ts";

const options = { signal: new AbortController().signal, channel: "#shop", announce: true };

function aTarget() {
  const received: [Notification, SendOptions][] = [];
  const notifier: Notifier = {
    edits: true,
    refreshMs: 7,
    async send(message, how) {
      received.push([message, how]);
      return "ref";
    },
  };
  return { notifier, received, titles: () => received.map(([{ title }]) => title) };
}

test("the first entry that selects the kind and the state replaces the title and adds a note", async () => {
  const { notifier, received } = aTarget();
  const own = withOwnWords(notifier, [
    { kinds: ["deploy"], states: ["failed"], title: "[{{cluster}}] {{title}}", note: "Runbook: https://wiki/{{kind}}" },
    { kinds: [], states: ["failed", "open"], title: "Achtung: {{title}}" },
  ]);
  expect(own).toMatchObject({ edits: true, refreshMs: 7 });

  const failed = sampleNotification({ kind: "deploy", state: "failed" });
  expect(await own.send(failed, options)).toBe("ref");
  const drift = sampleNotification({ kind: "drift", state: "open" });
  await own.send(drift, options);
  const succeeded = sampleNotification({ kind: "deploy", state: "succeeded" });
  await own.send(succeeded, options);

  expect(received).toEqual([
    [
      {
        ...failed,
        title: `[${failed.cluster}] ${failed.title}`,
        facts: [...failed.facts, { label: "Note", value: "Runbook: https://wiki/deploy" }],
      },
      options,
    ],
    [{ ...drift, title: `Achtung: ${drift.title}` }, options],
    [succeeded, options],
  ]);
});

test("texts of a notification are not templates themselves", async () => {
  const { notifier, titles } = aTarget();
  const own = withOwnWords(notifier, [{ kinds: [], states: [], title: "{{title}}!" }]);
  await own.send(sampleNotification({ title: "{{cluster}} {{unknown}}" }), options);
  expect(titles()).toEqual(["{{cluster}} {{unknown}}!"]);
});

test("an unknown name is an error that names the entry", () => {
  const { notifier } = aTarget();
  const words = [
    { kinds: [], states: [], title: "fine" },
    { kinds: [], states: [], note: "{{author}}" },
  ];
  expect(() => withOwnWords(notifier, words)).toThrow(
    /^words\[1\]\.note: "\{\{author\}\}" is unknown; use \{\{title\}\}/,
  );
});
