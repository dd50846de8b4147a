/** The targets of notifications: what each was sent, and why one receives nothing. */
import type { ShownTarget } from "../src/views/notifications.ts";
import { useFact, useNow } from "./hooks.ts";
import { Age, Loading, Notice } from "./parts.tsx";
import type { Health } from "./health.ts";
import { ageText, untilText } from "./words.ts";

const looks: Readonly<Record<ShownTarget["recent"][number]["severity"], { look: Health; words: string }>> = {
  error: { look: "failed", words: "Failure" },
  warning: { look: "waiting", words: "Open" },
  info: { look: "ready", words: "Info" },
};

export function NotificationsView() {
  const { value, problem } = useFact<readonly ShownTarget[]>("notifications", 10_000);
  const now = useNow();
  return (
    <>
      <h1>Notifications</h1>
      {problem && <Notice kind="bad">{problem}</Notice>}
      {!value && !problem && <Loading />}
      {value?.length === 0 && (
        <>
          <p>No target is configured.</p>
          <p class="quiet">
            A target is a chat, a mailbox or an HTTP endpoint that is notified of what became of a push and of what
            needs attention. Targets are in the server's configuration, in <code>notifications</code>.
          </p>
        </>
      )}
      {value?.map((target) => (
        <Target key={target.target} {...target} now={now} />
      ))}
    </>
  );
}

function Target({ target, kind, recent, open, trouble, now }: ShownTarget & { readonly now: number }) {
  return (
    <section>
      <h2 class="breaks">
        {target} <span class="quiet">{kind}</span>
      </h2>
      {trouble && (
        <Notice kind="bad">
          It has received nothing for {ageText(now - trouble.since)}: {trouble.message}. The next try is{" "}
          {untilText(trouble.nextAt, now)}.
        </Notice>
      )}
      {open > 0 && <p>Still needs attention: {open}</p>}
      {recent.length === 0 && <p class="quiet">Nothing was sent yet.</p>}
      <ul class="plain asides">
        {recent.map(({ at, title, severity }) => (
          <li key={`${at} ${title}`}>
            <span class={`badge ${looks[severity].look}`}>{looks[severity].words}</span>{" "}
            <span class="breaks">{title}</span>{" "}
            <span class="quiet">
              <Age at={at} now={now} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
