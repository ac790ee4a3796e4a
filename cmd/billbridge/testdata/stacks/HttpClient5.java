import java.io.*;
import org.apache.hc.client5.http.classic.methods.HttpPost;
import org.apache.hc.client5.http.impl.classic.HttpClients;
import org.apache.hc.core5.http.ContentType;
import org.apache.hc.core5.http.io.entity.*;

// Posts each line "URL BODY" with Apache HttpClient 5. Prints "STATUS REPLY", or "error" and what was thrown.
class HttpClient5 {
    public static void main(String[] args) throws IOException {
        var client = HttpClients.createDefault();
        var in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            var call = line.split(" ", 2);
            var post = new HttpPost(call[0]);
            post.setEntity(new StringEntity(call[1], ContentType.APPLICATION_JSON));
            try {
                String said = client.execute(post, reply ->
                    reply.getCode() + " " + EntityUtils.toString(reply.getEntity()));
                System.out.println(said.replace('\n', ' '));
            } catch (Exception e) {
                System.out.println("error " + e.toString().replace('\n', ' '));
            }
        }
    }
}
