// Sends name and password in the body of a POST, and goes to the page.

const form = document.getElementById("login");
const message = document.getElementById("message");
document.getElementById("plain").hidden = isSecureContext;

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = form.querySelector("button");
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
