/** The page: who may see it, what is live, and which view is shown. */
import { render } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { PageDeployment } from "../routes/page-facts.ts";
import { ask, listen, logIn, logOut, NoAccessError } from "./api.ts";
import { CommitView } from "./commit.tsx";
import { DeliveriesView } from "./deliveries.tsx";
import { DeploymentView } from "./deployment.tsx";
import { Deployments } from "./deployments.tsx";
import { useRoute } from "./hooks.ts";
import { PullRequestsView, QueueView } from "./lists.tsx";
import { Notice } from "./parts.tsx";
import { keyOf } from "./words.ts";

type Known = ReadonlyMap<string, PageDeployment>;

const views = [
  ["deployments", "Deployments"],
  ["commit", "Where is my commit?"],
  ["deliveries", "Deliveries"],
  ["pull-requests", "Pull requests"],
  ["queue", "Queue"],
] as const;

function Page() {
  const [refused, setRefused] = useState<NoAccessError | undefined>(undefined);
  const [session, setSession] = useState(false);
  const [known, setKnown] = useState<Known | undefined>(undefined);
  const [live, setLive] = useState(true);

  useEffect(() => {
    if (refused) return undefined;
    return listen({
      whole(deployments) {
        setKnown(new Map(deployments.map((one) => [keyOf(one), one])));
      },
      delta({ changed, removed }) {
        setKnown((before) => {
          const after = new Map(before);
          for (const one of changed) after.set(keyOf(one), one);
          for (const key of removed) after.delete(keyOf(key));
          return after;
        });
      },
      state: setLive,
      noAccess: setRefused,
    });
  }, [refused]);
  useEffect(() => {
    if (refused || !known) return;
    // Whom a proxy names has nothing to log out of.
    ask<{ by: string }>("access").then(
      ({ by }) => setSession(by === "session"),
      () => setSession(false),
    );
  }, [refused, known === undefined]);
  useEffect(() => {
    const lost = (event: Event) => setRefused((event as CustomEvent<NoAccessError>).detail);
    addEventListener("no-access", lost);
    return () => removeEventListener("no-access", lost);
  }, []);

  if (refused && !refused.byToken) {
    return (
      <main class="login">
        <h1>Towline</h1>
        <p>{refused.message}</p>
      </main>
    );
  }
  if (refused) return <Login onDone={() => (setKnown(undefined), setLive(true), setRefused(undefined))} />;
  const leave = () => void logOut().then(() => setRefused(new NoAccessError("", true)));
  return <Shell known={known} live={live} onLogOut={session ? leave : undefined} />;
}

interface ShellProps {
  readonly known: Known | undefined;
  readonly live: boolean;
  readonly onLogOut: (() => void) | undefined;
}

function Shell({ known, live, onLogOut }: ShellProps) {
  const [view = "deployments", ...rest] = useRoute();
  const main = useRef<HTMLElement>(null);
  const place = [view, ...rest].join("/");
  const shown = useRef(place);
  const title = views.find(([id]) => id === view)?.[1] ?? "Towline";
  useEffect(() => {
    document.title = rest.length > 0 ? `${rest.join("/")} – Towline` : `${title} – Towline`;
    if (shown.current === place) return;
    shown.current = place;
    // Who uses the keyboard goes on in what has just been opened.
    main.current?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [place]);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), main.current?.focus())}>
        To the content
      </a>
      <header>
        <span class="brand">Towline</span>
        <nav aria-label="Views">
          {views.map(([id, words]) => (
            <a key={id} href={`#/${id}`} aria-current={id === view ? "page" : undefined}>
              {words}
            </a>
          ))}
        </nav>
        {onLogOut && (
          <button type="button" class="quiet-button" onClick={onLogOut}>
            Log out
          </button>
        )}
      </header>
      <main id="main" ref={main} tabIndex={-1}>
        <div role="status">
          {!live && <Notice kind="bad">Not live: the server does not answer. What is shown may be old.</Notice>}
        </div>
        <View view={view} rest={rest} known={known} />
      </main>
    </>
  );
}

interface ViewProps {
  readonly view: string;
  readonly rest: readonly string[];
  readonly known: Known | undefined;
}

function View({ view, rest: [first = "", second = ""], known }: ViewProps) {
  const all = useValues(known);
  switch (view) {
    case "deployments": {
      if (second === "") return <Deployments all={all} />;
      const key = `${first}/${second}`;
      return <DeploymentView key={key} namespace={first} name={second} version={known?.get(key)} />;
    }
    case "commit":
      return <CommitView commit={first} version={0} />;
    case "deliveries":
      return <DeliveriesView />;
    case "pull-requests":
      return <PullRequestsView />;
    case "queue":
      return <QueueView />;
    default:
      return (
        <p>
          There is nothing here. <a href="#/deployments">All deployments</a>
        </p>
      );
  }
}

/** The same list until something is another. */
function useValues(known: Known | undefined): readonly PageDeployment[] | undefined {
  return useMemo(() => known && [...known.values()], [known]);
}

function Login({ onDone }: { readonly onDone: () => void }) {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState("");
  return (
    <main class="login">
      <h1>Towline</h1>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          logIn(token).then(onDone, (error: unknown) =>
            setProblem(error instanceof Error ? error.message : String(error)),
          );
        }}
      >
        <label for="token">Token of the page</label>
        <input
          id="token"
          type="password"
          autocomplete="current-password"
          required
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        <button type="submit">Log in</button>
        <div role="alert">{problem && <Notice kind="bad">{problem}</Notice>}</div>
      </form>
    </main>
  );
}

const root = document.getElementById("page");
if (root) render(<Page />, root);
