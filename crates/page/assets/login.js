// Sends name and password in the body of a POST, and goes to the page.

const form = document.getElementById("login");
const message = document.getElementById("message");
document.getElementById("plain").hidden = isSecureContext;
const button = form.querySelector("button");
// Until here a browser would have sent the form by itself: the button, and Enter with it, did nothing.
button.disabled = false;

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  button.disabled = true;
  message.textContent = "";
  try {
    const answer = await fetch("/login", { method: "POST", body: new URLSearchParams(new FormData(form)) });
    if (answer.ok) {
      location.replace("/");
      return;
    }
    const words = await answer.json().catch(() => ({}));
    message.textContent = words.error ?? "The login has failed.";
  } catch {
    message.textContent = "The pooler cannot be reached.";
  }
  button.disabled = false;
  form.elements.password.select();
});
