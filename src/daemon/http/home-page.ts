/** What a person sees who opens the address of the server: what it is, and the way in. It tells nothing of the server. */

export const HOME_PAGE = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Cella</title>
<style>
  :root { color-scheme: light dark; }
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 40rem; margin: 2rem auto; padding: 0 1rem; }
  code { font: 14px/1.45 ui-monospace, monospace; }
</style></head><body>
<h1>Cella</h1>
<p>This is a Cella server. Programs use it with a token: <code>cella run --url ADDRESS</code>, the client
<code>cella/client</code>, or plain HTTP.</p>
<p>In a browser, log in with the link that the server printed when it began, or with one that
<code>cella users login</code> makes. Then <a href="/docs">/docs</a> tells every route, and <a href="/openapi.json">/openapi.json</a> is the same for
programs.</p>
</body></html>
`;
