import java.io.*;
import java.net.*;
import java.nio.charset.StandardCharsets;

// Posts each line "URL BODY" with HttpURLConnection. Prints "STATUS REPLY", or "error" and what was thrown.
class UrlConnection {
    public static void main(String[] args) throws IOException {
        var in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            var call = line.split(" ", 2);
            try {
                var c = (HttpURLConnection) new URL(call[0]).openConnection();
                c.setRequestMethod("POST");
                c.setRequestProperty("Content-Type", "application/json");
                c.setDoOutput(true);
                try (var body = c.getOutputStream()) {
                    body.write(call[1].getBytes(StandardCharsets.UTF_8));
                }
                int status = c.getResponseCode();
                try (var reply = status < 400 ? c.getInputStream() : c.getErrorStream()) {
                    var text = new String(reply.readAllBytes(), StandardCharsets.UTF_8);
                    System.out.println(status + " " + text.replace('\n', ' '));
                }
            } catch (Exception e) {
                System.out.println("error " + e.toString().replace('\n', ' '));
            }
        }
    }
}
